"""The race as an optimizer of the catalog."""

from dataclasses import replace

import dspy

from optimizers.teleprompters.race.arms import ARMS, BASELINE, fitting_arms, named_arms
from optimizers.teleprompters.race.plan import divided, plan
from optimizers.teleprompters.race.race import race
from optimizers.teleprompters.task import Optimizer, Option, Runs, Task, always_fits, resolved_options


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
        asked = {name: _of_arm(name, student, inner) for name in fits}
        most = sorted((asked[name] for name in others), key=_sum, reverse=True)[: rung.contenders]
        n_val = len(rung.valset)
        for part in (Runs(student=n_val), asked[BASELINE], *most):
            total = _plus(total, part)
        # A program of the rung before is scored again, and the result of an optimizer that compares nothing.
        total = _plus(total, Runs(student=2 * n_val * (len(most) + 1)))
    return _plus(total, Runs(student=2 * len(divided(task)[1])))


def _of_arm(name: str, student: dspy.Module, task: Task) -> Runs:
    return ARMS[name].estimate(student, replace(task, options=resolved_options(name, ARMS[name].options, {})))


def _sum(runs: Runs) -> int:
    return runs.student + runs.teacher + runs.prompt_calls


def _plus(one: Runs, other: Runs) -> Runs:
    return Runs(one.student + other.student, one.teacher + other.teacher, one.prompt_calls + other.prompt_calls)


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
