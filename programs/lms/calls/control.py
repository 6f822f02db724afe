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
from typing import TypeVar

from programs.parts.threads import Started, daemon
from signatures.common.context import set_within
from signatures.common.per_process import PerProcess, Uncopied

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
        self._say = say
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

    def notice(self, text: str, *, at_once: bool = False) -> bool:
        """Tell the user, unless another notice was shown a moment ago; return whether it was told.

        Args:
            at_once: Tell it even so.
        """
        if self._stopped_at is not None:
            return False
        if self._say is None:
            return self._outer is not None and self._outer.notice(text, at_once=at_once)
        with self._lock:
            now = time.monotonic()
            if not at_once:
                if now < self._next_notice:
                    return False
                self._next_notice = now + NOTICE_SECONDS
        self._say(text)
        return True


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


def under(control: Control) -> contextlib.AbstractContextManager[object]:
    """Run the block under a control that outlives it."""
    return set_within(_current, control)


Result = TypeVar("Result")

SLICE = 0.2  # seconds between checks of the stop signal


class Clock(Uncopied):
    """The time, and waiting; tests replace both."""

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
    started = Started(work, name="lm-call")
    while not started.wait(min(SLICE, max(0.0, until - time.monotonic()))):
        check()
        control.check(grace=GRACE)
        if time.monotonic() >= until:
            raise TimeoutError(f"no reply within {seconds:g} s")
    return started.result()


_check: contextvars.ContextVar[Callable[[], None] | None] = contextvars.ContextVar("verihop_call_check", default=None)


def checked_calls(check: Callable[[], None]) -> contextlib.AbstractContextManager[object]:
    """Let `abortable` end what it runs in the block when `check` raises, or when the work was stopped some time ago."""
    control = current_control()

    def both() -> None:
        check()
        control.check(grace=GRACE)

    return set_within(_check, both)


class _Call:
    """A blocked call: what ends it, and how."""

    def __init__(self, check: Callable[[], None], abort: Callable[[], None]):
        self.check, self._abort = check, abort
        self.cause: BaseException | None = None

    def look(self) -> None:
        """Abort the call if its check raises."""
        try:
            self.check()
        except BaseException as error:  # noqa: BLE001 - raised in the thread of the call
            self.cause = error
            self._abort()


class _Watcher:
    """One thread that looks after all blocked calls of a process, instead of a thread for each."""

    def __init__(self) -> None:
        self._calls: set[_Call] = set()
        self._changed = threading.Condition()
        self._running = False

    def add(self, call: _Call) -> None:
        """Look after a call from now on."""
        with self._changed:
            self._calls.add(call)
            if not self._running:
                self._running = True
                daemon(self._run, name="lm-call-watcher")
            elif len(self._calls) == 1:
                self._changed.notify()

    def remove(self, call: _Call) -> None:
        """Look after a call no longer."""
        with self._changed:
            self._calls.discard(call)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._calls)
                calls = list(self._calls)
            for call in calls:
                call.look()
            time.sleep(SLICE)


_watcher = PerProcess(_Watcher)  # a fork has no threads of its parent


@contextlib.contextmanager
def abortable(abort: Callable[[], None]) -> Iterator[None]:
    """Run a block that waits for a server; within `checked_calls` its check can end it.

    Args:
        abort: Called in another thread; makes the block raise soon, e.g. by shutting a socket down.

    Raises:
        BaseException: What the check raised, instead of what the aborted block did.
    """
    check = _check.get()
    if check is None:
        yield
        return
    call = _Call(check, abort)
    _watcher().add(call)
    try:
        yield
    except Exception:
        if call.cause is not None:
            raise call.cause from None
        raise
    finally:
        _watcher().remove(call)
