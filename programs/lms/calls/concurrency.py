"""How many calls a server gets at a time: halved when it refuses one, and grown again with each reply.

Additive increase and multiplicative decrease, as in TCP's congestion avoidance (Chiu and Jain, "Analysis of the
Increase and Decrease Algorithms for Congestion Avoidance", 1989, https://doi.org/10.1016/0169-7552(89)90019-6). A
server whose replies are quick can refuse even one call at a time, so at a limit of 1 calls are also spaced out in time.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

from programs.lms.calls.waiting import CLOCK, Clock

Outcome = Literal["answered", "refused", "failed"]
Wait = Callable[[threading.Event, float], None]

_FIRST_SPACING, _LONGEST_SPACING = 0.02, 1.0  # seconds between the starts of two calls
_CLOSER = 1.1  # each reply divides the spacing by this
_UNTIL_WOKEN = 3600.0


class ConcurrencyLimit:
    """A limit on the calls in flight at one server, shared by all LMs on it; waiting calls start in order.

    Args:
        most: Calls in flight at a time while the server refuses none.
        clock: Measures spacing and the waits that the server asks for.
    """

    def __init__(self, most: int, *, clock: Clock = CLOCK):
        self._most = most
        self._clock = clock
        self._limit = float(most)
        self._spacing = 0.0
        self._opens = 0.0  # no call starts before
        self._last_cut = float("-inf")
        self._in_flight = 0
        self._queue: deque[threading.Event] = deque()
        self._lock = threading.Lock()
        self.answered = False

    def __deepcopy__(self, memo: dict[int, Any]) -> "ConcurrencyLimit":
        return self  # copies of an LM use the same server

    @property
    def limit(self) -> int:
        """Calls that may be in flight now."""
        return int(self._limit)

    def raise_maximum(self, most: int) -> None:
        """Raise the upper bound of the limit to `most`, for another LM on the same server."""
        with self._lock:
            if self._limit == self._most < most:
                self._limit = float(most)
            self._most = max(self._most, most)

    def divide(self, processes: int, number: int) -> None:
        """Keep the share of process `number`, from 0, of `processes` that call the server at the same time."""
        with self._lock:
            self._most = max(1, self._most // processes + (number < self._most % processes))
            self._limit = min(self._limit, float(self._most))

    def acquire(self, wait: Wait) -> float:
        """Wait until a call may start, and return the time at which it does.

        Args:
            wait: Called with an event and seconds; what it raises gives the turn to the next caller.
        """
        turn = threading.Event()
        with self._lock:
            self._queue.append(turn)
        try:
            while (seconds := self._seconds_to_wait(turn)) > 0:
                wait(turn, seconds)
        except BaseException:
            with self._lock:
                self._queue.remove(turn)
                self._wake()
            raise
        return self._clock.now()

    def _seconds_to_wait(self, turn: threading.Event) -> float:
        """Start the call and return 0 if it is its turn, else return after how many seconds to ask again."""
        with self._lock:
            turn.clear()
            if self._queue[0] is not turn or self._in_flight >= self.limit:
                return _UNTIL_WOKEN
            now = self._clock.now()
            if now < self._opens:
                return self._opens - now
            self._queue.popleft()
            self._in_flight += 1
            self._opens = now + self._spacing
            self._wake()
            return 0.0

    def _wake(self) -> None:
        if self._queue:
            self._queue[0].set()

    def release(self, started: float, outcome: Outcome, *, hint: float = 0.0) -> None:
        """End a call.

        Args:
            started: What `acquire` returned.
            outcome: Whether the server answered, refused the call because of its load, or failed otherwise.
            hint: Seconds for which the server asks not to be called.
        """
        with self._lock:
            in_flight = self._in_flight
            self._in_flight -= 1
            if outcome == "answered":
                self.answered = True
                self._grow()
            elif outcome == "refused":
                now = self._clock.now()
                # Calls that were in flight at the last cut tell nothing new.
                if started >= self._last_cut:
                    self._last_cut = now
                    self._cut(in_flight)
                self._opens = max(self._opens, now + hint)
            self._wake()

    def _cut(self, in_flight: int) -> None:
        if self._limit > 1:
            self._limit = max(1.0, min(self._limit, in_flight) / 2)  # there may be fewer calls than the limit allows
        else:
            self._spacing = min(max(2 * self._spacing, _FIRST_SPACING), _LONGEST_SPACING)

    def _grow(self) -> None:
        if self._spacing:
            closer = self._spacing / _CLOSER
            self._spacing = closer if closer >= _FIRST_SPACING / 2 else 0.0
        else:
            self._limit = min(float(self._most), self._limit + 1 / self._limit)


_limits: dict[str, ConcurrencyLimit] = {}
_limits_lock = threading.Lock()


def shared_limit(server: str, most: int) -> ConcurrencyLimit:
    """Return the concurrency limit of a server, the same for all LMs of this process on it."""
    with _limits_lock:
        limit = _limits.setdefault(server, ConcurrencyLimit(most))
    limit.raise_maximum(most)
    return limit


def share_limits(processes: int, number: int) -> None:
    """Divide the concurrency limits of this process among `processes` forks; this is number `number`, from 0."""
    with _limits_lock:
        limits = list(_limits.values())
    for limit in limits:
        limit.divide(processes, number)
