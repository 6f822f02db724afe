"""Waits that a stop signal ends."""

import threading
import time
from collections.abc import Callable
from typing import Any

from programs.lms.calls.control import current_control

SLICE = 0.2  # seconds between checks of the stop signal


class Clock:
    """The time, and waiting; tests replace both."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "Clock":
        return self

    def now(self) -> float:
        """Return seconds from any fixed point."""
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> None:
        """Return once `event` is set, or after `seconds`."""
        event.wait(seconds)


CLOCK = Clock()


def wait(event: threading.Event, seconds: float, *, clock: Clock, check: Callable[[], None] = lambda: None) -> None:
    """Wait until `event` is set, or for `seconds`.

    Args:
        event: Ends the wait.
        seconds: Longest wait.
        clock: Measures it.
        check: Called now and then; what it raises ends the wait.

    Raises:
        Stopped: The work is to stop.
    """
    control = current_control()
    until = clock.now() + seconds
    while not event.is_set():
        control.check()
        check()
        left = until - clock.now()
        if left <= 0:
            return
        clock.wait(event, min(left, SLICE))
    control.check()
