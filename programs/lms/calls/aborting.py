"""End a call that waits for a server when the work is stopped or a budget is spent, without a thread for each call."""

import contextlib
import contextvars
import threading
import time
from collections.abc import Callable, Iterator

from programs.lms.calls.control import GRACE, current_control
from programs.lms.calls.waiting import SLICE
from signatures.common.per_process import PerProcess

_check: contextvars.ContextVar[Callable[[], None] | None] = contextvars.ContextVar("verihop_call_check", default=None)


@contextlib.contextmanager
def checked_calls(check: Callable[[], None]) -> Iterator[None]:
    """Let `abortable` end what it runs in the block when `check` raises, or when the work was stopped some time ago."""
    control = current_control()

    def both() -> None:
        check()
        control.check(grace=GRACE)

    token = _check.set(both)
    try:
        yield
    finally:
        _check.reset(token)


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
                threading.Thread(target=self._run, name="lm-call-watcher", daemon=True).start()
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
