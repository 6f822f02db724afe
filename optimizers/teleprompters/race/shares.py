"""The budgets that a race spends from, divided equally among its arms."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import dspy

from optimizers.teleprompters.task import Task
from programs.lms.calls.budget import Budget, Share
from signatures.common.errors import UserError

_WHOLE = ("calls", "tokens")


@dataclass(frozen=True)
class Purse:
    """A budget, and the part of it that the race may spend.

    Args:
        budget: Of one or more LMs.
        share: The part; None if the race may spend all.
    """

    budget: Budget
    share: Share | None = None

    def left(self) -> dict[str, float]:
        """Return what is left by name; what has no limit is left out."""
        limits = {name: limit - self.budget.spent[name] for name, limit in _given(self.budget.limits)}
        for name, limit in _given(self.share.limits if self.share else {}):
            rest = limit - self.share.spent[name] if self.share else limit
            limits[name] = min(rest, limits.get(name, math.inf))
        return {name: max(0.0, rest) for name, rest in limits.items()}


def _given(limits: dict[str, float | None]) -> list[tuple[str, float]]:
    return [(name, limit) for name, limit in limits.items() if limit is not None]


@contextlib.contextmanager
def purses(task: Task) -> Iterator[list[Purse]]:
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
        share = None
        if budgets and task.options["calls"] is not None:
            share = stack.enter_context(budgets[0].within(calls=task.options["calls"]))
        yield [Purse(budget, None if number else share) for number, budget in enumerate(budgets)]


def _not_shared(task: Task, reason: str) -> UserError:
    return UserError(
        f"Option calls={task.options['calls']} of the race cannot be kept: {reason}. Give all LMs of the task one "
        "Budget (programs.lms.calls.metered.metered_lm), or leave the option out."
    )


def parts(
    purses: Sequence[Purse], number: int, kept: Sequence[dict[str, float]] | None = None
) -> list[dict[str, float]]:
    """Return, for each purse, the limits of one of so many equal parts of what is left, calls and tokens whole.

    Args:
        purses: To divide.
        number: Of parts.
        kept: For each purse, what is not divided.
    """
    limits = []
    for index, purse in enumerate(purses):
        rest = {name: left - (kept[index].get(name, 0.0) if kept else 0.0) for name, left in purse.left().items()}
        part = {name: max(0.0, left / number) for name, left in rest.items()}
        limits.append({name: float(int(each)) if name in _WHOLE else each for name, each in part.items()})
    return limits


@contextlib.contextmanager
def within(purses: Sequence[Purse], limits: Sequence[dict[str, float]]) -> Iterator[list[Share]]:
    """Limit what is spent from each purse inside the block."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(purse.budget.within(**part))  # type: ignore[arg-type]
            for purse, part in zip(purses, limits, strict=True)
            if part
        ]
