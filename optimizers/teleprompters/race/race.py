"""The race: every optimizer that fits, under one budget, by successive halving on growing sets of questions.

Successive halving is that of Karnin et al., "Almost Optimal Exploration in Multi-Armed Bandits", ICML 2013, and of
Jamieson and Talwalkar, AISTATS 2016, https://arxiv.org/abs/1502.07943: what is left of the budget is divided equally
among the rungs that are left, and a rung's part equally among its arms. An arm starts each rung from the program that
it had made on the one before, and the cache answers what was asked before, so that a rung continues what the last one
paid for.

- The uncompiled program and random search are on every rung. Of the others each rung keeps the best ones, of equals
  those that are earlier in `ARMS`, where the cheaper ones are first; of these it also drops who is worse than the best
  of all by a paired permutation test (option `drop_below`).
- An arm is run in the largest size that its part of the budget allows (`arms.py`), by the calls that a run of the
  uncompiled program takes. If its part is used up, its best program that was scored on the rung's questions counts; if
  there is none, it gets a second turn with what the others have left.
- A share of the validation questions (option `held_back`) is given to no arm. The program with the highest mean on the
  last rung is compared with the uncompiled one on them, once, in the end (`final.py`): it replaces it only if a
  one-sided paired permutation test is below the option `replace_below`. Otherwise the program stays as it was: a prompt
  that is only by chance better costs tokens for nothing.
- The final test gets the same part of the budget as a rung, but no more than its calls are likely to need.

The seed decides everything in a race that starts without cached replies. One that is stopped and resumed with the same
limits ends as it would have otherwise: a reply that an earlier session has paid for counts when it is used, as if it
had been sent then (`Budget.carry`). Not so where calls were lost: those in flight when the race was stopped, failed
ones, and replies that could not be parsed are paid for once more, so that the budget can end earlier; the limit on
seconds is one of each session. Under a budget, parts and sizes come from the calls that were sent: a race that finds
replies of other work in the cache affords more, and can end otherwise, resumed or not. Where a part of the budget ends
an arm in the middle of an evaluation, replies that other threads have got by then can differ, and with them what the
next rung gets for nothing: with one thread, they do not. More threads try some training questions more, which costs
calls and changes no program.
"""

from dataclasses import replace

import dspy

from optimizers.teleprompters.race.arm import Arm
from optimizers.teleprompters.race.arms import ARMS, BASELINE, UNCOMPILED, fitting_arms, sized
from optimizers.teleprompters.race.final import STAYS, decide
from optimizers.teleprompters.race.paired import better_by_chance
from optimizers.teleprompters.race.plan import Rung, plan
from optimizers.teleprompters.race.shares import left_of, opened, parts, within
from optimizers.teleprompters.race.table import report
from optimizers.teleprompters.recording import Candidate, Recording
from optimizers.teleprompters.task import Task, score_candidate
from programs.lms.calls.budget import Budget, BudgetExceeded
from programs.lms.calls.share import Share
from programs.parts.meter import Meter, metered, record_parallel
from signatures.common.errors import one_line, user_error_within

USED_UP = "its share of the budget was used up"
# Calls kept for the final test, in runs of the uncompiled program on a question: its own, and those of the finalist,
# which may be an ensemble of as many as four.
FINAL_RUNS = 5


def race(student: dspy.Module, task: Task) -> dspy.Module:
    """Return the program that won, or a copy of the student; the table is in `task.recording.details["race"]`."""
    fits, reasons = fitting_arms(student, task)
    arms = [Arm(name, student.deepcopy()) for name in (UNCOMPILED, *fits)]
    stopped = None
    with opened(task) as budgets:
        try:
            for rung in plan(task, len(_contenders(arms))):
                _run_rung(student, task, rung, arms, budgets)
                if rung.left > 1:
                    _drop(arms, rung, task)
            winner, why = decide(arms, rung.number, task)
        except BudgetExceeded as spent:
            stopped = task.recording.stopped = str(spent)
            winner, why = arms[0], f"The race ended before its final test, {STAYS}."
    task.recording.details["race"] = report(arms, reasons, winner.name, why, stopped, task.seed)
    return winner.program.deepcopy()


def _contenders(arms: list[Arm]) -> list[Arm]:
    return [arm for arm in arms if arm.name not in (UNCOMPILED, BASELINE) and arm.dropped is None]


def _run_rung(student: dspy.Module, task: Task, rung: Rung, arms: list[Arm], budgets: list[Budget]) -> None:
    """Run every arm that is in the race on the questions of a rung, the uncompiled program first and without limit."""
    task = replace(task, trainset=rung.trainset, valset=rung.valset, known={}, on_candidate=None, progress=None)
    before = arms[0].meter.calls
    _run_arm(arms[0], student, task, rung, [])
    per_run = max(1.0, (arms[0].meter.calls - before) / len(rung.valset))
    running = [arm for arm in arms[1:] if arm.dropped is None]
    if not running:
        return
    final = _of_the_final(budgets, rung, FINAL_RUNS * rung.held_back * per_run)
    limits = parts(budgets, rung.left * len(running), final)
    kept = [
        {name: left - part[name] * len(running) for name, left in left_of(budget).items()}
        for budget, part in zip(budgets, limits, strict=True)
    ]
    _take_turns(running, student, task, rung, budgets, limits, per_run)
    # What the others have left of the rung's part may let those finish that have scored nothing yet.
    late = [arm for arm in running if arm.note == USED_UP and rung.number not in arm.scores]
    if late:
        _take_turns(late, student, task, rung, budgets, parts(budgets, len(late), kept), per_run)
    for arm in running:
        if rung.number not in arm.scores and arm.dropped is None and arm.name != BASELINE:
            arm.dropped = f"rung {rung.number}: nothing was scored: {arm.note or 'it made no program'}"


def _of_the_final(budgets: list[Budget], rung: Rung, calls: float) -> list[dict[str, float]]:
    """Return what of each budget is kept for the final test: the part of a rung, but no more than so many calls."""
    most = {"calls": calls}
    return [
        {name: min(left / (rung.left + 1), most.get(name, left)) for name, left in left_of(budget).items()}
        for budget in budgets
    ]


def _take_turns(
    arms: list[Arm],
    student: dspy.Module,
    task: Task,
    rung: Rung,
    budgets: list[Budget],
    limits: list[dict[str, float]],
    per_run: float,
) -> None:
    """Run arms one after the other, each within the same limits and in the size that they allow."""
    affordable = min((part["calls"] / per_run for part in limits if "calls" in part), default=float("inf"))
    for arm in arms:
        start = arm.program if type(arm.program) is type(student) else student
        inner = replace(task, options=sized(arm.name, start, task, affordable))
        if reason := ARMS[arm.name].fits(start, inner):
            arm.dropped = f"rung {rung.number}: does not fit: {reason}"
            continue
        with within(budgets, limits) as shares:
            _run_arm(arm, start, inner, rung, shares)


def _run_arm(arm: Arm, start: dspy.Module, task: Task, rung: Rung, shares: list[Share]) -> None:
    """Run an arm and note its best program that was scored on all questions of the rung."""
    outer, meter = task.recording, Meter()
    recording = Recording(task.valset, meter, on_run=outer.ran)
    task = replace(task, recording=recording)
    others = [each for each in dspy.settings.get("callbacks") or () if not isinstance(each, Recording)]
    arm.note = ""
    try:
        with metered(meter), dspy.context(callbacks=[*others, recording]):
            _optimize(arm, start, task)
    except BudgetExceeded as spent:
        arm.note = USED_UP
        # The last arm's share is all that is left: the budget itself is then used up with it.
        if recording.best() is None and not any(spent.share is share for share in shares):
            raise
    except Exception as error:  # noqa: BLE001 - an optimizer that fails must not end the others
        if user_error := user_error_within(error):
            raise user_error from None
        arm.note = f"it failed: {type(error).__name__}: {one_line(str(error), 80)}"
    finally:
        record_parallel([meter])
        arm.meter.add(**meter.counts())
        outer.tried += recording.tried
        outer.failed += recording.failed
        _note(arm, recording.best(), outer, rung)


def _optimize(arm: Arm, start: dspy.Module, task: Task) -> None:
    """Let candidates be recorded: those of the optimizer, its result, and the best program of the rungs before."""
    if arm.name == UNCOMPILED:
        score_candidate(arm.program, task, UNCOMPILED)
        return
    if arm.scores:
        score_candidate(arm.program, task, "of the rung before")
    program = ARMS[arm.name].run(start, task)
    if not ARMS[arm.name].compares:
        score_candidate(program, task, arm.name)


def _note(arm: Arm, best: Candidate | None, outer: Recording, rung: Rung) -> None:
    if best is not None:
        arm.program, arm.scores[rung.number] = best.program, dict(best.scores)
        outer.add(best.program, best.scores, f"race {rung.number}: {arm.name}")


def _drop(arms: list[Arm], rung: Rung, task: Task) -> None:
    """Drop the worse contenders: all but one in so many, and those that the paired test finds worse than the best."""
    here = [arm for arm in arms if arm.dropped is None and rung.number in arm.scores]
    best = max(here, key=lambda arm: arm.mean(rung.number))  # of equals the earlier
    ranked = sorted(_contenders(here), key=lambda arm: -arm.mean(rung.number))
    keep = -(-len(ranked) // task.options["keep_one_in"])
    for place, arm in enumerate(ranked, start=1):
        p = better_by_chance(best.scores[rung.number], arm.scores[rung.number], seed=task.seed)
        if place > keep:
            arm.dropped = f"rung {rung.number}: place {place} of {len(ranked)}, {keep} went on"
        elif arm is not best and p < task.options["drop_below"]:
            arm.dropped = f"rung {rung.number}: worse than {best.name} (p = {p:.3f})"
