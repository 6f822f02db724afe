"""A limit on what LM calls may cost, kept to under any number of threads."""

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from signatures.common.errors import UserError


class BudgetExceeded(BaseException):  # not an Exception: optimizers swallow those and would run on
    """The next LM call would exceed the budget; nothing was sent. What was finished before stays finished."""


@dataclass
class Reservation:
    """What one call may cost at most; the call fills in what it did cost.

    Args:
        tokens: Prompt and completion tokens together.
        usd: Price; None when the LM states none.
    """

    tokens: int
    usd: float | None = None


class Budget:
    """Limits on LM calls, shared by every copy of an LM. A limit of None does not bind.

    Each call is reserved before it is sent, so that calls in flight count too; answers from the cache are free.

    Args:
        calls: LM calls sent, retries included.
        tokens: Prompt and completion tokens; the prompt is guessed high and corrected by what the LM reports.
        usd: Price. Until the first price is known calls go one at a time; afterwards each is reserved at the
            highest price seen, so only a call dearer than every one before it can pass the limit.
        seconds: No call starts later than this after the first one; a call in flight is waited for.
        clock: Seconds from any fixed point.

    Raises:
        UserError: A limit is negative or not a number.
    """

    def __init__(
        self,
        *,
        calls: int | None = None,
        tokens: int | None = None,
        usd: float | None = None,
        seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.limits = {"calls": calls, "tokens": tokens, "usd": usd, "seconds": seconds}
        for name, limit in self.limits.items():
            if limit is not None and not (limit >= 0 and math.isfinite(limit)):
                raise UserError(f"Budget {name} must be a number >= 0, got {limit!r}.")
        self._clock = clock
        self._start: float | None = None
        self._spent: dict[str, float] = {"calls": 0, "tokens": 0, "usd": 0.0}
        self._reserved: dict[str, float] = {"tokens": 0, "usd": 0.0}
        self._dearest: float | None = None
        self._in_flight = 0
        self._change = threading.Condition()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Budget":
        return self  # optimizers copy programs and their LMs; the money is the same

    @property
    def spent(self) -> dict[str, float]:
        """Calls, tokens, usd and seconds used up to now; calls in flight count as calls only."""
        with self._change:
            return {**self._spent, "seconds": self._seconds()}

    @contextlib.contextmanager
    def reserve(self, tokens: int, calls: int = 1) -> Iterator[Reservation]:
        """Hold room for `calls` calls of at most `tokens` tokens together, then book what the caller says they cost.

        Raises:
            BudgetExceeded: There is no room, before anything is sent.
            UserError: A limit in usd is set and the LM states no price.
        """
        with self._change:
            self._change.wait_for(lambda: self._price_is_known() or self._in_flight == 0)
            usd = self._dearest or 0.0
            self._check(calls, tokens, usd)
            self._start = self._clock() if self._start is None else self._start
            self._spent["calls"] += calls
            self._reserved["tokens"] += tokens
            self._reserved["usd"] += usd
            self._in_flight += 1
        booking = Reservation(tokens=0)
        try:
            yield booking
        finally:
            with self._change:
                self._in_flight -= 1
                self._reserved["tokens"] -= tokens
                self._reserved["usd"] -= usd
                self._spent["tokens"] += booking.tokens
                self._spent["usd"] += booking.usd or 0.0
                if booking.usd is not None:
                    self._dearest = max(self._dearest or 0.0, booking.usd)
                self._change.notify_all()
        if self.limits["usd"] is not None and booking.usd is None:
            raise UserError("This LM states no price, so a budget in usd cannot hold; limit calls or tokens instead.")

    def _price_is_known(self) -> bool:
        return self.limits["usd"] is None or self._dearest is not None

    def _seconds(self) -> float:
        return 0.0 if self._start is None else self._clock() - self._start

    def _check(self, calls: int, tokens: int, usd: float) -> None:
        wanted = {
            "calls": self._spent["calls"] + calls,
            "tokens": self._spent["tokens"] + self._reserved["tokens"] + tokens,
            "usd": self._spent["usd"] + self._reserved["usd"] + usd,
            "seconds": self._seconds(),
        }
        for name, limit in self.limits.items():
            # A price may be 0 for the next call, so a spent sum in usd must itself be refused.
            full = name == "usd" and limit is not None and 0 < limit <= self._spent["usd"]
            if limit is not None and (wanted[name] > limit or full):
                raise BudgetExceeded(f"The budget of {limit:g} {name} is used up ({self._spent_line()}).")

    def _spent_line(self) -> str:
        spent = {**self._spent, "seconds": self._seconds()}
        return ", ".join(f"{value:.4g} {name}" for name, value in spent.items())
