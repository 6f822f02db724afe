"""The optimizers that race, and the sizes in which each can be run, small to large."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import dspy

from optimizers.teleprompters.single import SINGLE
from optimizers.teleprompters.task import Optimizer, Task, resolved_options
from signatures.common.errors import UserError

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
        reason = ARMS[name].fits(student, replace(task, options=resolved_options(name, ARMS[name].options, {})))
        if reason is None:
            fits.append(name)
        else:
            reasons[name] = reason
    return fits, reasons


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
        runs = ARMS[name].estimate(student, replace(task, options=each))
        if runs.student + runs.teacher + runs.prompt_calls <= affordable:
            best = each
    return best


def _sizes(name: str) -> Iterator[dict[str, Any]]:
    for given in (*SIZES.get(name, ()), {}):
        yield resolved_options(name, ARMS[name].options, given)
