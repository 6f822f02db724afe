"""Control of the work in progress: a stop signal, the LMs that have answered, and notices for the user.

Commands open a control around their work; LMs read it from the running context, so that programs need not pass it
along. Whatever a thread of finished work still does is stopped at its next LM call.
"""

import contextlib
import contextvars
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

GRACE = 1.5  # seconds that calls in flight have when the work is stopped
NOTICE_SECONDS = 30.0  # between two notices; every thread that waits has one


class Stopped(BaseException):  # not an Exception: programs and optimizers catch those and continue
    """The work was stopped, and this LM call was not sent."""


class Control:
    """Stops LM calls, and knows which LMs have answered.

    Args:
        say: Receives notices such as that a server limits the rate, at most one every 30 s; by default those of the
            outer work do.
        outer: The control of the work that this is a part of; it stops this one, too.
    """

    def __init__(self, say: Callable[[str], None] | None = None, outer: "Control | None" = None):
        self._say = say or (outer.notice if outer else lambda text: None)
        self._outer = outer
        self._stopped_at: float | None = None
        self._answers: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._next_notice = 0.0

    def stop(self, *, grace: float = GRACE) -> None:
        """Send no further LM call, end waits, and abandon calls in flight after `grace` seconds, at most `GRACE`."""
        stopped_at = time.monotonic() - (GRACE - grace)
        self._stopped_at = stopped_at if self._stopped_at is None else min(self._stopped_at, stopped_at)

    def check(self, *, grace: float = 0.0) -> None:
        """Raise Stopped if the work was stopped at least `grace` seconds ago."""
        if self._stopped_at is not None and time.monotonic() - self._stopped_at >= grace:
            raise Stopped("the work was stopped")
        if self._outer is not None:
            self._outer.check(grace=grace)

    def answered(self, model: str) -> None:
        """Count a reply of an LM."""
        with self._lock:
            self._answers[model] += 1
        if self._outer is not None:
            self._outer.answered(model)

    def answers(self) -> Counter[str]:
        """Return how many calls each LM has answered, by its model string; cached replies are not counted."""
        with self._lock:
            return self._answers.copy()

    @property
    def any_answers(self) -> bool:
        """Whether any LM has answered a call."""
        return self._answers.total() > 0

    def notice(self, text: str) -> None:
        """Tell the user, unless another notice was shown a moment ago."""
        with self._lock:
            now = time.monotonic()
            if now < self._next_notice or self._stopped_at is not None:
                return
            self._next_notice = now + NOTICE_SECONDS
        self._say(text)


_current: contextvars.ContextVar[Control | None] = contextvars.ContextVar("verihop_control", default=None)
_NONE = Control()  # never stopped


def current_control() -> Control:
    """Return the control of the running context; without one, nothing is ever stopped."""
    return _current.get() or _NONE


@contextlib.contextmanager
def controlled(say: Callable[[str], None] | None = None) -> Iterator[Control]:
    """Run the block under a new control; when it ends, its threads send no further LM call."""
    control = Control(say, _current.get())
    try:
        with under(control):
            yield control
    finally:
        control.stop()


@contextlib.contextmanager
def under(control: Control) -> Iterator[None]:
    """Run the block under a control that outlives it."""
    token = _current.set(control)
    try:
        yield
    finally:
        _current.reset(token)
