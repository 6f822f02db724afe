"""A thread pool that can be stopped without losing results of items in progress."""

import contextlib
import contextvars
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import FrameType
from typing import Any, Generic, NamedTuple, TypeVar

from programs.lms.calls.control import GRACE, Control
from programs.parts.threads import daemon
from signatures.common.interrupts import handled

Item = TypeVar("Item")
Result = TypeVar("Result")

_SLICE = 0.1  # seconds between checks for Ctrl-C


class Outcome(NamedTuple, Generic[Item, Result]):
    """The result of one item, or the exception (of any type) that its work raised."""

    item: Item
    result: Result | None
    error: BaseException | None


class ThreadPool(Generic[Item, Result]):
    """Process items in parallel; iterating yields each outcome as it completes.

    Every item runs in a copy of the context that created the pool, so that `dspy.context` and meters apply to it.
    An iteration that an exception interrupts (Ctrl-C) can be resumed. Threads are daemons, so that the process can exit
    without waiting for a slow LM, which `ThreadPoolExecutor` does not allow. They are at most one item per thread ahead
    of the iteration. After an item raises anything but an Exception, no further item is started.

    Args:
        work: Called with each item.
        items: Started in order.
        threads: Items in progress at a time, at least 1.
    """

    def __init__(self, work: Callable[[Item], Result], items: Iterable[Item], *, threads: int):
        self._work = work
        self._items = list(items)
        self._most_open = 2 * threads
        self._context = contextvars.copy_context()
        self._outcomes: deque[Outcome[Item, Result]] = deque()
        self._changed = threading.Condition()
        self._started = self._yielded = 0
        for number in range(min(threads, len(self._items))):
            daemon(self._run, name=f"question-{number}")

    def _may_start(self) -> bool:
        return self._started == len(self._items) or self._started - self._yielded < self._most_open

    def _next_item(self) -> Item | None:
        with self._changed:
            self._changed.wait_for(self._may_start)
            if self._started == len(self._items):
                return None
            self._started += 1
            return self._items[self._started - 1]

    def _run(self) -> None:
        while (item := self._next_item()) is not None:
            try:
                outcome = Outcome(item, self._context.copy().run(self._work, item), None)
            except BaseException as error:  # noqa: BLE001 - handed over to the thread that iterates
                outcome = Outcome(item, None, error)
                if not isinstance(error, Exception):
                    self.stop()
            with self._changed:
                self._outcomes.append(outcome)
                self._changed.notify_all()

    def stop(self) -> int:
        """Start no further item; return how many are in progress."""
        with self._changed:
            del self._items[self._started :]
            self._changed.notify_all()
            return self._started - self._yielded - len(self._outcomes)

    def within(self, seconds: float) -> Iterator[Outcome[Item, Result]]:
        """Yield the outcomes that are complete within `seconds`."""
        until = time.monotonic() + seconds
        while True:
            with self._changed:
                self._changed.wait_for(self._may_yield, max(0.0, until - time.monotonic()))
                if not self._outcomes:
                    return
                outcome = self._take()
            yield outcome

    def _may_yield(self) -> bool:
        return bool(self._outcomes) or self._yielded == len(self._items)

    def _take(self) -> Outcome[Item, Result]:
        self._yielded += 1
        self._changed.notify_all()
        return self._outcomes.popleft()

    def __iter__(self) -> Iterator[Outcome[Item, Result]]:
        """Yield all outcomes; Ctrl-C raises KeyboardInterrupt between two of them, unless the loop is left before."""
        with deferred_interrupt() as pressed:
            while (outcome := self._next(pressed)) is not None:
                yield outcome
        if pressed:  # perhaps after the last outcome
            raise KeyboardInterrupt

    def _next(self, pressed: list[int]) -> Outcome[Item, Result] | None:
        with self._changed:
            while not self._changed.wait_for(self._may_yield, _SLICE) and not pressed:
                pass
            return self._take() if self._outcomes and not pressed else None


def take_all(pool: ThreadPool[Any, Result], take: Callable[[Result], None], control: Control) -> None:
    """Hand over each result; after an error or Ctrl-C, which are raised, those that are complete within `GRACE`."""
    try:
        for outcome in pool:
            if outcome.result is None:
                raise outcome.error or RuntimeError("An item ended with neither result nor error.")
            take(outcome.result)
    except BaseException as error:
        pool.stop()
        if isinstance(error, KeyboardInterrupt):
            control.stop()
        for outcome in pool.within(GRACE):
            if outcome.result is not None:
                take(outcome.result)
        raise


@contextlib.contextmanager
def deferred_interrupt() -> Iterator[list[int]]:
    """Yield a list that receives the first Ctrl-C in the block instead of an exception; the second one raises.

    An exception between any two instructions can leave a lock held forever, e.g. that of a progress bar, whose thread
    is waited for at the end. Outside of the main thread, which signals interrupt, the list stays empty.
    """
    pressed: list[int] = []
    before: Any = signal.getsignal(signal.SIGINT)

    def press(number: int, frame: FrameType | None) -> None:
        pressed.append(number)
        try:
            before(number, frame)
        except KeyboardInterrupt:
            if len(pressed) > 1:
                raise

    with handled({signal.SIGINT: press} if callable(before) else {}):
        yield pressed


BATCH = 32  # questions in one pass
_LAST_BATCH = 10.0  # seconds that the one in progress has to end


class Prefetch:
    """Gives a retriever the questions that come next, in batches, from a thread of its own.

    Retrieval does not wait for it: a question that it has not reached is embedded when it is asked, and only then.

    Args:
        retriever: Without a method `prefetch` (BM25, none at all) nothing is done.
    """

    def __init__(self, retriever: Any):
        self._prefetch: Callable[[list[str]], None] | None = getattr(retriever, "prefetch", None)
        self._waiting: dict[str, None] = {}  # in order
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, question: str) -> None:
        """Have a question embedded soon."""
        if self._prefetch is None or self._closed:
            return
        with self._changed:
            self._waiting[question] = None
            if self._thread is None:
                self._thread = daemon(self._run, name="prefetch")
            if len(self._waiting) >= BATCH:
                self._changed.notify()

    def started(self, question: str) -> None:
        """Leave a question that is asked now to its retrieval."""
        if self._prefetch is not None:
            with self._changed:
                self._waiting.pop(question, None)

    def close(self) -> None:
        """Embed nothing more, and wait until the batch in progress is done: a process that ends while a thread
        computes in a library crashes.
        """
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_LAST_BATCH)

    def _run(self) -> None:
        assert self._prefetch is not None
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or len(self._waiting) >= BATCH)
                if self._closed:
                    return
                batch = list(islice(self._waiting, BATCH))
                for question in batch:
                    del self._waiting[question]
            try:
                self._prefetch(batch)
            except Exception:  # noqa: BLE001 - the retrieval of the question raises it where it is reported
                self._closed = True
