"""Waits and calls that a stop signal or a spent budget ends."""

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from programs.lms.calls.control import GRACE, current_control
from programs.parts.threads import start

Result = TypeVar("Result")

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
        check: Called now and then, e.g. for a spent budget; what it raises ends the wait.

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


def call_within(work: Callable[[], Result], seconds: float, *, check: Callable[[], None]) -> Result:
    """Return what `work` returns, but stop waiting for it when its time is over or the work is stopped.

    It runs in a daemon thread, since a blocked call cannot be interrupted; an abandoned one ends unnoticed.

    Args:
        work: Called in a copy of the context.
        seconds: Longest wait.
        check: Called now and then, e.g. for a spent budget; what it raises ends the wait.

    Raises:
        Stopped: The work was stopped some time ago.
        TimeoutError: `seconds` are over.
        BaseException: What `work` raised.
    """
    control = current_control()
    until = time.monotonic() + seconds
    done, ended = start(work, name="lm-call")
    while not done.wait(min(SLICE, max(0.0, until - time.monotonic()))):
        check()
        control.check(grace=GRACE)
        if time.monotonic() >= until:
            raise TimeoutError(f"no reply within {seconds:g} s")
    return ended[0].result()
