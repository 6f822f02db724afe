"""Daemon threads: the process can exit while they wait for a slow LM.

`concurrent.futures` joins its threads when the interpreter exits, so that Ctrl-C would wait for every reply.
"""

import asyncio
import concurrent.futures
import contextlib
import contextvars
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import dspy

from programs.parts.meter import Meter, metered, record_parallel

Result = TypeVar("Result")
_LOOK = 0.2  # seconds


def wait_for(event: threading.Event) -> None:
    """Wait until the event is set, or until Ctrl-C if this is the main thread.

    The system may deliver Ctrl-C to any thread. Python then handles it in the main thread, but only when that runs
    again, which it does not while it waits without a time limit.
    """
    while not event.wait(_LOOK):
        pass


def result_of(future: Future[Result], check: Callable[[], None] = lambda: None) -> Result:
    """Return the result of a future, or raise its error; waits as `wait_for` does.

    Args:
        future: What to wait for.
        check: Called now and then; what it raises ends the wait.
    """
    while not concurrent.futures.wait([future], timeout=_LOOK).done:
        check()
    return future.result()


@dataclass
class Ended(Generic[Result]):
    """How a task ended: with a value, or with an error of any kind."""

    value: Any = None
    error: BaseException | None = None

    def result(self) -> Result:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


def caught(task: Callable[[], Result]) -> Ended[Result]:
    """Run a task and return how it ended."""
    try:
        return Ended(task())
    except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits for it
        return Ended(error=error)


def daemon(work: Callable[..., object], *arguments: object, name: str) -> threading.Thread:
    """Run `work` in a new daemon thread, and return that."""
    thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
    thread.start()
    return thread


class Started(Generic[Result]):
    """A task that runs in its own daemon thread, in a copy of the context."""

    def __init__(self, task: Callable[[], Result], *, name: str):
        self._done = threading.Event()
        self._ended: Ended[Result] = _died(name)
        self._thread = daemon(self._run, contextvars.copy_context(), task, name=name)

    def _run(self, context: contextvars.Context, task: Callable[[], Result]) -> None:
        self._ended = context.run(caught, task)
        self._done.set()

    def wait(self, seconds: float) -> bool:
        """Wait until the task has ended, for `seconds` at most, and return whether it has."""
        return self._done.wait(seconds) or not self._thread.is_alive()

    def result(self) -> Result:
        """Return the value of a task that has ended, or raise its error; RuntimeError if its thread never ran it."""
        return self._ended.result()


def _died(name: str) -> Ended[Any]:
    """Return how a task ended whose thread died before it, as where no memory is left."""
    return Ended(error=RuntimeError(f"The thread {name!r} died before its work began."))


def ended_within(seconds: float, task: Callable[[], Result], *, name: str) -> Started[Result] | None:
    """Run a task in a daemon thread and return it once it has ended; None after `seconds`: its thread is left alone."""
    started, until = Started(task, name=name), time.monotonic() + seconds
    while not started.wait(_LOOK):  # with a time limit, as in `wait_for`
        if time.monotonic() > until:
            return None
    return started


def run_all(tasks: Sequence[Callable[[], Result]], *, width: int, name: str) -> list[Ended[Result]]:
    """Run tasks in daemon threads, at most `width` at a time, and return how they ended, in the order given.

    Each task runs in a copy of the caller's context.
    """
    ended: list[Ended[Result] | None] = [None] * len(tasks)
    contexts = [contextvars.copy_context() for _ in tasks]
    numbers = iter(range(len(tasks)))
    lock, last = threading.Lock(), threading.Event()
    left = [len(tasks)]

    def work() -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            end = contexts[number].run(caught, tasks[number])
            with lock:
                ended[number] = end
                left[0] -= 1
                if not left[0]:
                    last.set()

    threads = [daemon(work, name=f"{name}-{number}") for number in range(min(width, len(tasks)))]
    while any(thread.is_alive() for thread in threads) and not last.wait(_LOOK):  # with a time limit, as in `wait_for`
        pass
    return [end or _died(name) for end in ended]


class Threads:
    """Daemon threads that end when nothing is left to do; tasks beyond `width` wait, in order.

    What runs in an event loop can take a place of a thread (`place`), so that both together are at most `width`.

    Args:
        width: Threads and places taken at a time.
    """

    def __init__(self, width: int):
        self._width, self._running = width, 0
        self._waiting: deque[Callable[[], None] | Future[None]] = deque()
        self._lock = threading.Lock()

    def run(self, task: Callable[[], None]) -> None:
        """Run a task, which must not raise, in a thread."""
        with self._lock:
            if self._running >= self._width:
                self._waiting.append(task)
                return
            self._running += 1
        self._start(task)

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place in the block; wait for it first, without blocking the event loop, if all are taken."""
        granted: Future[None] = Future()
        with self._lock:
            if free := self._running < self._width:
                self._running += 1
            else:
                self._waiting.append(granted)
        if not free:
            try:
                await asyncio.wrap_future(granted)
            except asyncio.CancelledError:
                if not granted.cancel():  # it was granted at the same moment
                    self._pass_on()
                raise
        try:
            yield
        finally:
            self._pass_on()

    def _start(self, task: Callable[[], None]) -> None:
        daemon(self._work, task, name="answer")

    def _work(self, task: Callable[[], None] | None) -> None:
        while task is not None:
            task()
            task = self._next()

    def _pass_on(self) -> None:
        """Give the place of the caller to what waits longest."""
        if (task := self._next()) is not None:
            self._start(task)

    def _next(self) -> Callable[[], None] | None:
        """Return the task that gets the caller's place; None if an event loop got it, or nothing waits."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._running -= 1
                    return None
                first = self._waiting.popleft()
            if not isinstance(first, Future):
                return first
            if first.set_running_or_notify_cancel():  # else nobody waits for it any more
                first.set_result(None)
                return None


WIDTH = 8  # calls of one question at a time

First = TypeVar("First")
Second = TypeVar("Second")


def fanout(tasks: Sequence[Callable[[], Result]], *, width: int = WIDTH) -> list[Result]:
    """Run `tasks`, at most `width` at a time, and return their results in submission order.

    Trace entries and counts are joined in the same order, so that an optimizer that picks demonstrations by trace
    order sees the same trace on every run. All tasks together count as many sequential rounds as the longest one.

    Raises:
        BaseException: What the first failed task in submission order raised; after all tasks have ended.
    """
    if len(tasks) <= 1:
        return [task() for task in tasks]

    def run(task: Callable[[], Result]) -> tuple[Ended[Result], list[Any], Meter]:
        with metered() as meter, dspy.context(trace=[]):
            return caught(task), list(dspy.settings.trace or []), meter

    finished = [end.result() for end in run_all([partial(run, task) for task in tasks], width=width, name="fanout")]

    trace = dspy.settings.trace
    for _, entries, _ in finished:
        if trace is not None:
            trace.extend(entries)
    record_parallel([meter for _, _, meter in finished])
    return [end.result() for end, _, _ in finished]


def in_parallel(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """Run two tasks as `fanout` does and return both results."""
    tasks: list[Callable[[], Any]] = [first, second]
    one, other = fanout(tasks)
    return one, other


def sequential_calls(program: dspy.Module) -> int:
    """Return the most LM calls in sequence that a program makes for one question; all its calls if it names none."""
    most: int = getattr(program, "max_sequential_calls", program.max_calls)()
    return most
