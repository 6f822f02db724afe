"""The final test of a race: one program that was chosen on other questions, against the uncompiled one."""

import math
from dataclasses import replace

from optimizers.teleprompters.race.arm import Arm
from optimizers.teleprompters.race.paired import better_by_chance
from optimizers.teleprompters.race.plan import divided
from optimizers.teleprompters.recording import Recording
from optimizers.teleprompters.task import Task, score_candidate
from programs.parts.meter import Meter, metered, record_parallel

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
    """Return the winner and why: the finalist, if it is better on the questions that were held back.

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
