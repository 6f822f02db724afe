"""The race: every optimizer that fits, under one budget, by successive halving on growing sets of questions.

Successive halving is that of Karnin et al., "Almost Optimal Exploration in Multi-Armed Bandits", ICML 2013, and of
Jamieson and Talwalkar, AISTATS 2016, https://arxiv.org/abs/1502.07943: what is left of the budget is divided equally
among the rungs that are left, and a rung's part equally among its arms. An arm starts each rung from the program that
it had made on the one before, and the cache answers what was asked before, so that a rung continues what the last one
paid for.

- The uncompiled program and random search are on every rung. Of the others each rung keeps the best ones, of equals
  those that are earlier in `ARMS`, where the cheaper ones are first; of these it also drops who is worse than the best
  of all by a paired permutation test (option `drop_below`).
- An arm is run in the largest size that its part of the budget allows, by the calls that a run of the
  uncompiled program takes. If its part is used up, its best program that was scored on the rung's questions counts; if
  there is none, it gets a second turn with what the others have left.
- A share of the validation questions (option `held_back`) is given to no arm. The program with the highest mean on the
  last rung is compared with the uncompiled one on them, once, in the end: it replaces it only if a
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

The paired permutation test is that of `scipy.stats.permutation_test` with `permutation_type="samples"`: under the null
hypothesis the two scores of a question could as well be exchanged, so that the sign of their difference is a coin.
"""

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import dspy

from optimizers.teleprompters.bootstrap import shuffled
from optimizers.teleprompters.single import SINGLE
from optimizers.teleprompters.task import (
    Optimizer,
    Option,
    Recording,
    Runs,
    ScoredProgram,
    Task,
    always_fits,
    resolved_options,
    score_candidate,
)
from programs.lms.calls.budget import Budget, BudgetExceeded, Share
from programs.parts.meter import Meter, metered, record_parallel
from signatures.common.costs import Costs, paid
from signatures.common.errors import UserError, one_line, user_error_within


@dataclass
class Arm:
    """An optimizer in a race.

    Args:
        name: Of the optimizer, or "uncompiled".
        program: The best it has made.
        scores: Number of a rung -> score by question.
        meter: What it has cost.
        dropped: Why it was dropped; None while it is in the race.
        note: What else is to be said.
        final: Score by question of the final test; empty if it was not in it.
    """

    name: str
    program: dspy.Module
    scores: dict[int, dict[str, float]] = field(default_factory=dict)
    meter: Meter = field(default_factory=Meter)
    dropped: str | None = None
    note: str = ""
    final: dict[str, float] = field(default_factory=dict)

    def mean(self, rung: int) -> float:
        """Return the mean score on a rung on which it was scored."""
        return sum(self.scores[rung].values()) / len(self.scores[rung])


_EXACT = 12  # differing questions up to which all signs are tried
_DRAWS = 20_000
_SLACK = 1e-9  # sums of the same numbers in another order count as equal


def better_by_chance(scores: Mapping[str, float], others: Mapping[str, float], *, seed: int = 0) -> float:
    """Return the one-sided p of a paired permutation test: how likely scores as much higher are by chance alone.

    Args:
        scores: Score by question, of what may be better.
        others: The same for what it is compared with; only questions in both count.
        seed: Of the draws, where not all permutations are tried.

    Returns:
        In (0, 1]; 1.0 if no question differs.
    """
    differences = [scores[name] - others[name] for name in sorted(scores.keys() & others.keys())]
    differing = [each for each in differences if each]
    if not differing:
        return 1.0
    least = sum(differing) - _SLACK
    if len(differing) <= _EXACT:
        sums = [sum(sign * each for sign, each in zip(signs, differing, strict=True)) for signs in _signs(differing)]
        return sum(each >= least for each in sums) / len(sums)
    import numpy as np

    signs = np.random.default_rng(seed).choice((-1.0, 1.0), size=(_DRAWS, len(differing)))
    # The order that was found is one of the permutations, so that p is never 0.
    return float((np.sum(signs @ np.asarray(differing) >= least) + 1) / (_DRAWS + 1))


def _signs(differing: Sequence[float]) -> product:
    return product((-1.0, 1.0), repeat=len(differing))


def interval(scores: Mapping[str, float], *, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % percentile bootstrap interval of the mean of at least one score."""
    import numpy as np

    values = np.asarray([scores[name] for name in sorted(scores)])
    drawn = np.random.default_rng(seed).integers(0, len(values), size=(2_000, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), (0.025, 0.975))
    return float(low), float(high)


UNCOMPILED, BASELINE = "uncompiled", "random_search"
# Departure: BetterTogether is no arm, because its steps are.
ARMS: Mapping[str, Optimizer] = {BASELINE: SINGLE[BASELINE], **SINGLE}
# Options by size; after the last come the optimizer's defaults.
SIZES: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    BASELINE: tuple({"candidates": number} for number in (1, 2, 4)),
    "ensemble": tuple({"candidates": number, "size": 3} for number in (2, 4)),
    "copro": tuple({"breadth": breadth, "depth": depth} for breadth, depth in ((2, 1), (3, 1), (3, 2), (5, 2))),
    "mipro": tuple({"num_candidates": sets, "num_trials": trials} for sets, trials in ((2, 2), (3, 4), (4, 8))),
    "simba": tuple(
        {"bsize": batch, "num_candidates": number, "max_steps": steps}
        for batch, number, steps in ((4, 2, 1), (6, 3, 2), (12, 4, 4))
    ),
    "gepa": tuple({"max_metric_calls": runs} for runs in (20, 40, 80, 160, 320)),
    "infer_rules": tuple({"num_candidates": number} for number in (1, 2, 4)),
}


def named_arms(task: Task) -> list[str]:
    """Return the names of the arms that the option `arms` asks for, random search first.

    Raises:
        UserError: A name is unknown.
    """
    names = [name.strip() for name in str(task.options["arms"]).split(",") if name.strip()]
    for name in names:
        if name not in ARMS:
            raise UserError(f"The race has no arm {name!r}. It has: {', '.join(ARMS)}.")
    return [name for name in ARMS if name == BASELINE or not names or name in names]


def fitting_arms(student: dspy.Module, task: Task) -> tuple[list[str], dict[str, str]]:
    """Return the names of the arms that fit, and of the others why they do not."""
    fits, reasons = [], {}
    for name in named_arms(task):
        reason = ARMS[name].fits(student, _with_defaults(name, task))
        if reason is None:
            fits.append(name)
        else:
            reasons[name] = reason
    return fits, reasons


def _with_defaults(name: str, task: Task) -> Task:
    return replace(task, options=resolved_options(name, ARMS[name].options, {}))


def sized(name: str, student: dspy.Module, task: Task, affordable: float) -> dict[str, Any]:
    """Return the options of the largest size of an arm that is affordable, of the smallest if none is.

    Args:
        name: Of the arm.
        student: What it starts from.
        task: With the questions of the rung.
        affordable: Program runs and calls of the prompt LM, together.
    """
    options = list(_sizes(name))
    best = options[0]
    for each in options:
        if ARMS[name].estimate(student, replace(task, options=each)).total() <= affordable:
            best = each
    return best


def _sizes(name: str) -> Iterator[dict[str, Any]]:
    for given in (*SIZES.get(name, ()), {}):
        yield resolved_options(name, ARMS[name].options, given)


@dataclass(frozen=True)
class Rung:
    """One round of a race.

    Args:
        number: From 1.
        left: Rungs from this one to the last, this one included.
        trainset: Contains those of the rung before.
        valset: Contains those of the rung before; on the last rung, all that are not held out.
        contenders: Optimizers that may take part, besides random search and the uncompiled program.
        held_back: Number of validation questions that are on no rung.
    """

    number: int
    left: int
    trainset: list[dspy.Example]
    valset: list[dspy.Example]
    contenders: int
    held_back: int


def plan(task: Task, contenders: int) -> list[Rung]:
    """Return the rungs: each keeps one in `keep_one_in` contenders and has so many times more questions.

    No set has fewer questions than `fewest`, if there are so many.

    The last rung, which one contender reaches (or more, where the option `rungs` allows no further one), has all
    questions but those that are held out. Their order is random, by the task's seed.
    """
    factor, most = task.options["keep_one_in"], task.options["rungs"]
    counts = [contenders]
    while counts[-1] > 1 and len(counts) < most:
        counts.append(math.ceil(counts[-1] / factor))
    train, (val, held_back) = _in_order(task.trainset, f"{task.seed}: train"), divided(task)
    rungs = []
    for number, count in enumerate(counts, start=1):
        left = len(counts) - number + 1
        share = float(factor) ** -(left - 1)
        few = task.options["fewest"]
        rungs.append(Rung(number, left, _part(train, share, few), _part(val, share, few), count, len(held_back)))
    return rungs


def divided(task: Task) -> tuple[list[dspy.Example], list[dspy.Example]]:
    """Return the validation questions of the rungs, and those that are held out for the final test.

    The share `held_back` is rounded down, so that the rungs have at least one.
    """
    val = _in_order(task.valset, f"{task.seed}: val")
    number = len(val) - min(int(task.options["held_back"] * len(val)), len(val) - 1)
    return val[:number], val[number:]


def _in_order(examples: Sequence[dspy.Example], seed: str) -> list[dspy.Example]:
    return [examples[number] for number in shuffled(len(examples), seed)]


def _part(examples: list[dspy.Example], share: float, fewest: int) -> list[dspy.Example]:
    return examples[: max(round(share * len(examples)), fewest)]


STAYS = "so the program stays as it was"


def finalist(arms: list[Arm], rung: int) -> Arm:
    """Return the arm with the highest mean on a rung, of equals the earlier: the uncompiled program is the first.

    Args:
        arms: The uncompiled program first.
        rung: The last one, on which all arms that were in the race had their turn.
    """
    uncompiled, *others = arms
    if rung not in uncompiled.scores:
        return uncompiled
    return max((uncompiled, *(arm for arm in others if rung in arm.scores)), key=lambda arm: arm.mean(rung))


def decide(arms: list[Arm], rung: int, task: Task) -> tuple[Arm, str]:
    """Return the winner and why: the finalist, if it is better on the questions that were held out.

    There is one test, planned before the race, of one program. No arm was given its questions, so that p needs no
    correction for the number of arms or of their candidates.

    Args:
        arms: The uncompiled program first.
        rung: The last one.
        task: With the rule that replaces, and all validation questions.

    Raises:
        BudgetExceeded: The budget is spent.
    """
    uncompiled, best = arms[0], finalist(arms, rung)
    if best is uncompiled:
        scored = any(rung in arm.scores for arm in arms[1:])
        found = "No optimizer's program scored higher" if scored else "No optimizer was scored"
        return uncompiled, f"{found}, {STAYS}."
    _, held_back = divided(task)
    number, limit = len(held_back), task.options["replace_below"]
    if number < (fewest := least_questions(limit)):
        found = (
            f"{best.name} scored highest, but p cannot be below {limit:g} on the {number} validation questions that "
        )
        return uncompiled, f"{found}were held back (at least {fewest} must be), {STAYS}."
    inner = replace(task, valset=held_back, recording=Recording(held_back, on_run=task.recording.ran))
    for arm in (uncompiled, best):
        _score(arm, rung, inner, task.recording)
    p = better_by_chance(best.final, uncompiled.final, seed=task.seed)
    means = [sum(arm.final.values()) / number for arm in (best, uncompiled)]
    found = f"{best.name} scored {means[0]:.3f} and the uncompiled program {means[1]:.3f} on the {number} validation "
    found += f"questions that were held back (paired p = {p:.3f}"
    if p < limit:
        return best, f"{found}, below {limit:g})."
    return uncompiled, f"{found}, not below {limit:g}), {STAYS}."


def least_questions(limit: float) -> float:
    """Return how many questions the paired test needs for a p below a limit: n of them allow 1/2^n at best."""
    if limit <= 0:
        return math.inf
    return max(1, math.floor(-math.log2(limit)) + 1)


def _score(arm: Arm, rung: int, task: Task, outer: Recording) -> None:
    """Score an arm's program on the questions of the task, and record it with the scores of all questions."""
    meter = Meter()
    try:
        with metered(meter):
            made = score_candidate(arm.program, task, arm.name)
    finally:
        record_parallel([meter])
        arm.meter.add(**meter.counts())
    arm.final = dict(made.scores)
    outer.add(arm.program, {**arm.scores[rung], **arm.final}, f"final: {arm.name}", errors=made.errors)


@contextlib.contextmanager
def opened(task: Task) -> Iterator[list[Budget]]:
    """Open the budgets of the task's LMs, each once; the option `calls` limits the only one inside the block.

    Raises:
        UserError: The option `calls` is given, but the LMs do not share one budget.
    """
    lms = [lm for lm in (dspy.settings.lm, task.teacher_lm, task.prompt_lm) if lm is not None]
    found = {id(budget): budget for lm in lms if (budget := getattr(lm, "budget", None)) is not None}
    budgets = list(found.values())
    if task.options["calls"] is not None and {id(getattr(lm, "budget", None)) for lm in lms} != set(found):
        raise _not_shared(task, "an LM has no budget")
    if task.options["calls"] is not None and len(budgets) > 1:
        raise _not_shared(task, "the LMs have a budget each")
    with contextlib.ExitStack() as stack:
        if budgets and task.options["calls"] is not None:
            stack.enter_context(budgets[0].within(calls=task.options["calls"]))
        yield budgets


def _not_shared(task: Task, reason: str) -> UserError:
    return UserError(
        f"Option calls={task.options['calls']} of the race cannot be enforced: {reason}. Give all LMs of the task one "
        "Budget (programs.lms.calls.metered.metered_lm), or leave the option out."
    )


def left_of(budget: Budget) -> Costs:
    """Return what is left, as if the race had never been interrupted."""
    return budget.left(uninterrupted=True)


def parts(
    budgets: Sequence[Budget], number: int, kept: Sequence[dict[str, float]] | None = None
) -> list[dict[str, float]]:
    """Return, for each budget, the limits of one of so many equal parts of what is left, calls and tokens whole.

    Args:
        budgets: To divide.
        number: Of parts.
        kept: For each budget, what is not divided.
    """
    limits: list[dict[str, float]] = []
    for index, budget in enumerate(budgets):
        rest = left_of(budget) - (kept[index] if kept else {})
        limits.append(Costs({name: max(0.0, left / number) for name, left in rest.items()}).whole())
    return limits


@contextlib.contextmanager
def within(budgets: Sequence[Budget], limits: Sequence[dict[str, float]]) -> Iterator[list[Share]]:
    """Limit what is spent from each budget inside the block."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(budget.within(**part))  # type: ignore[arg-type]
            for budget, part in zip(budgets, limits, strict=True)
            if part
        ]


def report(
    arms: Sequence[Arm], reasons: Mapping[str, str], winner: str, why: str, stopped: str | None, seed: int
) -> dict[str, Any]:
    """Return the table as JSON values.

    `score`, `low` and `high` are of the questions that chose; `held_back` and `p` are of the final test.

    Args:
        arms: The uncompiled program first.
        reasons: Of the optimizers that do not fit.
        winner: Name of the arm whose program was chosen.
        why: The reason of the choice.
        stopped: Why the race ended early; None if it did not.
        seed: Of interval and test.
    """
    rows = [_row(arm, arms[0], seed) for arm in arms]
    rows += [{"optimizer": name, "outcome": f"does not fit: {reason}"} for name, reason in reasons.items()]
    for row in rows:
        if row["optimizer"] == winner:
            row["outcome"] = "; ".join(filter(None, ["chosen", row["outcome"]]))
    return {"winner": winner, "why": why, "stopped": stopped, "rows": rows}


def _row(arm: Arm, uncompiled: Arm, seed: int) -> dict[str, Any]:
    spent = paid(arm.meter.counts())
    row: dict[str, Any] = {
        "optimizer": arm.name,
        "calls": int(arm.meter.calls),
        "sent": int(spent["calls"]),
        "usd": round(spent["usd"], 6),
        "tokens": int(spent["tokens"]),
        "outcome": "; ".join(filter(None, [arm.dropped, _table_note(arm)])),
    }
    if arm.scores:
        last = max(arm.scores)
        scores = arm.scores[last]
        low, high = interval(scores, seed=seed)
        row |= {"rung": last, "n": len(scores), "score": arm.mean(last), "low": low, "high": high}
    if arm.final:
        row |= {"n_held_back": len(arm.final), "held_back": sum(arm.final.values()) / len(arm.final)}
        if arm is not uncompiled:
            row["p"] = better_by_chance(arm.final, uncompiled.final, seed=seed)
    return row


def _table_note(arm: Arm) -> str:
    return "" if arm.dropped and arm.note in arm.dropped else arm.note


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


def _note(arm: Arm, best: ScoredProgram | None, outer: Recording, rung: Rung) -> None:
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


def _fits(student: dspy.Module, task: Task | None) -> str | None:
    if task is not None:
        named_arms(task)
    return always_fits(student, task)


def _estimate(student: dspy.Module, task: Task) -> Runs:
    """Return the work without a limit: on each rung the arms that ask for most."""
    fits, _ = fitting_arms(student, task)
    others = [name for name in fits if name != BASELINE]
    total = Runs()
    for rung in plan(task, len(others)):
        inner = replace(task, trainset=rung.trainset, valset=rung.valset)
        asked = {name: ARMS[name].estimate(student, _with_defaults(name, inner)) for name in fits}
        most = sorted((asked[name] for name in others), key=Runs.total, reverse=True)[: rung.contenders]
        n_val = len(rung.valset)
        total = sum((asked[BASELINE], *most), total + Runs(student=n_val))
        # A program of the rung before is scored again, and the result of an optimizer that compares nothing.
        total += Runs(student=2 * n_val * (len(most) + 1))
    return total + Runs(student=2 * len(divided(task)[1]))


RACE = Optimizer(
    run=race,
    summary="All optimizers that fit, under one budget, by successive halving; a final test decides.",
    source="https://arxiv.org/abs/1502.07943",
    fits=_fits,
    estimate=_estimate,
    options={
        "arms": Option("", "Optimizers that race, separated by commas; by default all that fit."),
        "calls": Option(None, "LM calls of the race; by default what the LM's budget allows.", 1, 10**9, kind=int),
        "keep_one_in": Option(3, "One in so many optimizers goes on to the next rung.", 2, 100),
        "rungs": Option(4, "Rungs at most.", 1, 20),
        "fewest": Option(8, "Questions of a rung at least, of each set.", 1, 10_000),
        "drop_below": Option(0.05, "p of the paired test below which a worse optimizer is dropped.", 0, 1),
        "held_back": Option(0.5, "Share of the validation questions that only the final test sees.", 0.1, 0.9),
        "replace_below": Option(0.1, "p of the final test below which the program is replaced.", 0, 1),
    },
    compares=True,
)
