"""A pool of processes with threads each: Python runs one thread of a process at a time, so that one core would do.

The processes are forks, so that programs and connections need no serialised form. They are started before anything
that forks badly is: models, the progress bar's thread. Where there is no fork (Windows), or where it is unsafe (macOS),
there are threads only (`experiments.pipeline.parallel.choice`).
"""

import contextlib
import multiprocessing
import signal
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, NamedTuple, TypeVar

from experiments.pipeline.parallel.messages import (
    WorkerDied,
    end_processes,
    exit_reason,
    receive,
    send,
    unpacked_error,
)
from experiments.pipeline.parallel.thread_pool import Outcome, deferred_interrupt
from experiments.pipeline.parallel.worker import Job, Worker
from signatures.common.errors import UserNotice

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 64  # items that a worker knows of before it can start them, so that it can prepare for them together
_SLICE = 0.1  # seconds between checks for Ctrl-C
# Seconds that all workers together have after the `GRACE` of Ctrl-C: to say what unfinished items have cost, to end.
_LAST_WORDS, _ENDING = 2.5, 0.5


class _Member(NamedTuple):
    """A worker process, as its parent sees it."""

    process: Any
    link: Connection
    assigned: set[int]
    most: int


class ProcessPool(Generic[Item, Result]):
    """Process items in several processes; iterating yields each outcome as it completes, as `ThreadPool` does.

    Create it before `with` blocks whose end only the parent may run. After an item raises anything but an Exception, no
    further item is started.

    Args:
        job: What to do with each item.
        items: Started in order.
        threads: Items in progress at a time, over all processes.
        processes: At most one per thread and item is started.
        say: Shows notices of the workers to the user.
    """

    def __init__(
        self,
        job: Job[Item, Result],
        items: Sequence[Item],
        *,
        threads: int,
        processes: int,
        say: Callable[[str], None] = lambda text: None,
    ):
        self._job, self._items, self._say = job, list(items), say
        self._next, self._last = 0, len(self._items)  # of the items
        self._outcomes: deque[Outcome[Item, Result]] = deque()
        self._costs: list[Mapping[str, float]] = []
        self._members: list[_Member] = []
        self._opened: list[tuple[Any, Connection]] = []
        try:
            self._start(threads, max(1, min(processes, threads, len(self._items))))
        except BaseException:  # Ctrl-C, or the system starts no further process
            self.close()
            raise
        for member in self._members:
            self._assign(member)

    def _start(self, threads: int, processes: int) -> None:
        context = multiprocessing.get_context("fork")
        sys.stdout.flush()
        sys.stderr.flush()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until the worker ignores it
        try:
            for number in range(processes):
                share = threads // processes + (number < threads % processes)
                ours, theirs = context.Pipe()
                others = [ours, *(member.link for member in self._members)]
                process = context.Process(
                    target=_run, args=(theirs, others, self._job, self._items, share, number), daemon=True
                )
                process.start()
                theirs.close()
                self._opened.append((process, ours))
                self._members.append(_Member(process, ours, set(), share + AHEAD))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _assign(self, member: _Member) -> None:
        left = self._last - self._next
        # Dealt evenly: at the end no worker may have items ahead while threads of another are idle.
        even = -(-(left + sum(len(each.assigned) for each in self._members)) // len(self._members))
        count = min(min(even, member.most) - len(member.assigned), left)
        numbers = range(self._next, self._next + count)
        if numbers:
            self._next += len(numbers)
            member.assigned.update(numbers)
            self._tell(member, {"ask": list(numbers)})

    def _tell(self, member: _Member, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # it has ended, which is noticed when its messages are read
            send(member.link, message)

    def stop(self) -> int:
        """Start no further item; return how many are in progress."""
        self._last = self._next
        for member in self._members:
            self._tell(member, {"stop": True})
        return sum(min(len(member.assigned), member.most - AHEAD) for member in self._members)

    def within(self, seconds: float) -> Iterator[Outcome[Item, Result]]:
        """Stop the LM calls of the workers, and yield the outcomes that are complete within `seconds`."""
        for member in self._members:
            self._tell(member, {"interrupt": True})
        until = time.monotonic() + seconds
        while self._outcomes or (self._pending() and time.monotonic() < until):
            if not self._outcomes:
                with contextlib.suppress(WorkerDied):  # the others have their time all the same
                    self._read(max(0.0, until - time.monotonic()))
            while self._outcomes:
                yield self._outcomes.popleft()

    def __iter__(self) -> Iterator[Outcome[Item, Result]]:
        """Yield all outcomes; Ctrl-C raises KeyboardInterrupt between two of them.

        Raises:
            UserError: A worker cannot prepare.
            WorkerDied: A worker has ended unexpectedly.
        """
        with deferred_interrupt() as pressed:
            while not pressed and (self._outcomes or self._pending()):
                if self._outcomes:
                    yield self._outcomes.popleft()
                else:
                    self._read(_SLICE)
        if pressed:  # perhaps at the last outcome
            raise KeyboardInterrupt

    def unfinished(self) -> list[Mapping[str, float]]:
        """End the workers, and return what items have cost that were started and have no outcome."""
        for member in self._members:
            self._tell(member, {"end": True})
        until = time.monotonic() + _LAST_WORDS
        while self._members and (left := until - time.monotonic()) > 0:
            with contextlib.suppress(WorkerDied):  # of one that has ended, the costs are lost; not those of the others
                self._read(left)
        return self._costs

    def close(self) -> None:
        """End the processes, with SIGKILL those that SIGTERM does not end."""
        end_processes([process for process, _ in self._opened], _ENDING)
        for _, link in self._opened:
            link.close()
        self._members = []

    def _pending(self) -> bool:
        return any(member.assigned for member in self._members)

    def _read(self, seconds: float) -> None:
        """Wait for messages for at most `seconds`, and take in those that are there."""
        ready = wait([member.link for member in self._members], seconds)
        for member in [member for member in self._members if member.link in ready]:
            try:
                message = receive(member.link)
            except (EOFError, OSError):
                self._members.remove(member)
                member.process.join(_LAST_WORDS)
                raise WorkerDied(_ended(member.process.exitcode)) from None
            self._take(member, message)

    def _take(self, member: _Member, message: dict[str, Any]) -> None:
        if "item" in message:
            member.assigned.discard(message["item"])
            item = self._items[message["item"]]
            if "error" in message:
                self._outcomes.append(Outcome(item, None, unpacked_error(message["error"])))
                if message["stops"]:
                    self.stop()
            else:
                self._outcomes.append(Outcome(item, self._job.unpack(message["result"]), None))
            self._assign(member)
        elif "dropped" in message:
            member.assigned.discard(message["dropped"])
        elif "failed" in message:
            raise unpacked_error(message["failed"])
        elif "unfinished" in message:
            self._costs += message["unfinished"]
            self._members.remove(member)
        elif "say" in message:
            self._say(message["say"])
        elif "notice" in message:
            warnings.warn(UserNotice(message["notice"]), stacklevel=2)
        elif "warning" in message:
            warnings.warn(message["warning"], RuntimeWarning, stacklevel=2)


def _run(
    link: Connection, others: Sequence[Connection], job: Job[Any, Any], items: Sequence[Any], threads: int, number: int
) -> None:
    for other in others:  # of the parent: as long as one process has them open, no worker would notice the parent's end
        other.close()
    Worker(link, job, items, threads).run(number)


def _ended(code: int | None) -> str:
    return f"A worker process ended unexpectedly: {exit_reason(code)}. Rows are kept: resume, with fewer processes."
