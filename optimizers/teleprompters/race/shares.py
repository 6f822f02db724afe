"""The budgets that a race spends from, divided equally among its arms."""

import contextlib
from collections.abc import Iterator, Sequence

import dspy

from optimizers.teleprompters.task import Task
from programs.lms.calls.budget import Budget
from programs.lms.calls.share import Share
from signatures.common.errors import UserError

_WHOLE = ("calls", "tokens")


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
        f"Option calls={task.options['calls']} of the race cannot be kept: {reason}. Give all LMs of the task one "
        "Budget (programs.lms.calls.metered.metered_lm), or leave the option out."
    )


def left_of(budget: Budget) -> dict[str, float]:
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
    limits = []
    for index, budget in enumerate(budgets):
        rest = {name: left - (kept[index].get(name, 0.0) if kept else 0.0) for name, left in left_of(budget).items()}
        part = {name: max(0.0, left / number) for name, left in rest.items()}
        limits.append({name: float(int(each)) if name in _WHOLE else each for name, each in part.items()})
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
