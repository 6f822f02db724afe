"""The budget that one question has, beside that of its LM."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator

from programs.lms.calls.budget import Budget, BudgetExceeded, Reservation

_current: contextvars.ContextVar[Budget | None] = contextvars.ContextVar("verihop_question_budget", default=None)


@contextlib.contextmanager
def limited_by(budget: Budget) -> Iterator[None]:
    """Let LM calls of the block count in `budget`, too, in threads that copy its context as well.

    Questions that are answered in parallel can each have one; `Budget.within` counts whatever runs during its block.
    What does not fit raises BudgetExceeded.
    """
    token = _current.set(budget)
    try:
        yield
    finally:
        _current.reset(token)


@contextlib.contextmanager
def _marked() -> Iterator[None]:
    """Mark a BudgetExceeded of the block as that of a question."""
    try:
        yield
    except BudgetExceeded as error:
        error.of_question = True
        raise


@contextlib.contextmanager
def reserve_in_both(budget: Budget, tokens: int, calls: int) -> Iterator[Reservation]:
    """Reserve calls in the budget of an LM and in that of the question, if there is one, and book their cost in both.

    Raises:
        BudgetExceeded: One of them has no room for the calls.
    """
    own = _current.get()
    if own is None:
        with budget.reserve(tokens=tokens, calls=calls) as booking:
            yield booking
        return
    with contextlib.ExitStack() as stack:
        with _marked():
            same = stack.enter_context(own.reserve(tokens=tokens, calls=calls))
        booking = stack.enter_context(budget.reserve(tokens=tokens, calls=calls))
        try:
            yield booking
        finally:
            same.tokens, same.usd = booking.tokens, booking.usd


def checks_of(budget: Budget) -> Callable[[], None]:
    """Return the function that raises BudgetExceeded if the seconds of the budget, or of the question's, are over."""
    own = _current.get()
    if own is None:
        return budget.check_seconds

    def check() -> None:
        with _marked():
            own.check_seconds()
        budget.check_seconds()

    return check
