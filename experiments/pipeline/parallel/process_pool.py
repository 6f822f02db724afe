"""A pool of processes with threads each: Python runs one thread of a process at a time, so that one core would do.

The processes are forks, so that programs and connections need no serialised form. They are started before anything that
forks badly is: models, the progress bar's thread. Where there is no fork (Windows), or where it is unsafe (macOS, or a
process that has opened a model before), there are threads only. Processes of a service are started, heard and ended by
the same functions.

A worker answers the items that its parent names by number, in threads; it has items, program and connection from the
fork. Ctrl-C is the parent's business: a terminal sends it to all processes, and the parent tells its workers when to
stop. A worker ends with its parent.
"""

import contextlib
import contextvars
import json
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from experiments.pipeline.parallel.thread_pool import Outcome, deferred_interrupt
from programs.lms.calls.budget import BudgetExceeded
from programs.lms.calls.control import Stopped, controlled
from programs.lms.calls.metered import LMUnavailable
from programs.parts.threads import daemon
from signatures.common.errors import UserError, UserNotice, undone_by_error
from signatures.common.openvino_core import model_opened

if TYPE_CHECKING:
    from programs.lms.connect import Connection


Message = dict[str, Any]

_STOPS: dict[str, type[BaseException]] = {kind.__name__: kind for kind in (BudgetExceeded, Stopped)}


class WorkerError(RuntimeError):
    """The work of a process failed unexpectedly; the message contains its traceback."""


class Child(NamedTuple):
    """A process as its parent sees it, and the parent's end of the pipe to it."""

    process: Any
    link: Pipe


def can_fork() -> bool:
    """Return whether this system starts processes as copies; on macOS its own libraries forbid it."""
    return "fork" in multiprocessing.get_all_start_methods() and sys.platform != "darwin"


def why_one_process() -> str | None:
    """Return where there can be no copies of this process, and what to do there; None if there can be."""
    if not can_fork():
        return "on this system: use threads, or several machines"
    if model_opened():
        return "in a process in which a model has run: use threads, or start Python again"
    return None


@contextlib.contextmanager
def forking(children: list[Child], signals: Sequence[signal.Signals]) -> Iterator[Callable[..., Child]]:
    """Yield a function that starts a process, which calls a function with its end of the pipe and arguments.

    Args:
        children: Receives each process that was started.
        signals: Blocked in the block and in the processes, each of which has to unblock them.
    """
    context = multiprocessing.get_context("fork")

    def start(run: Callable[..., None], *arguments: Any) -> Child:
        ours, theirs = context.Pipe()
        inherited = [ours, *(child.link for child in children)]
        process = context.Process(target=_begin, args=(inherited, run, theirs, *arguments), daemon=True)
        process.start()
        theirs.close()
        children.append(Child(process, ours))
        return children[-1]

    sys.stdout.flush()
    sys.stderr.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield start
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(inherited: Sequence[Pipe], run: Callable[..., None], *arguments: Any) -> None:
    for other in inherited:  # of the parent: as long as one process has them open, none would notice the parent's end
        other.close()
    run(*arguments)


def exit_reason(process: Any, seconds: float) -> str:
    """Return why a process ended that was not told to; it may take `seconds` to end after its pipe did."""
    process.join(seconds)
    code = process.exitcode
    reason = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
    return f"{reason} (9 is what the system sends when memory runs out)" if code == -signal.SIGKILL else reason


def end_all(children: Sequence[Child], seconds: float) -> None:
    """Send SIGTERM to all processes, and SIGKILL to those that have not ended within `seconds`, all together."""
    for process, _ in children:
        process.terminate()
    until = time.monotonic() + seconds
    for process, link in children:
        process.join(max(0.0, until - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()
        link.close()


def send(link: Pipe, message: Message) -> None:
    """Send a message.

    Raises:
        TypeError: A value in it is not JSON.
        OSError: The other process has ended.
    """
    # LMs can write lone surrogates, which stay as they are in escaped JSON.
    link.send_bytes(json.dumps(message).encode())


def receive(link: Pipe) -> Message:
    """Wait for a message and return it.

    Raises:
        EOFError: The other process has ended.
    """
    message: Message = json.loads(link.recv_bytes())
    return message


def packed_error(error: BaseException) -> Message:
    """Return an error as JSON: what its handlers look at, and its traceback if it is a fault of ours."""
    if isinstance(error, UserError):
        return {"kind": "user", "text": str(error), "model": getattr(error, "model", None)}
    if type(error).__name__ in _STOPS:
        return {"kind": type(error).__name__, "text": str(error)}
    return {"kind": "other", "text": "".join(traceback.format_exception(error))}


def unpacked_error(packed: Message) -> BaseException:
    """Return the error that `packed_error` made JSON of; a `WorkerError` in place of an unexpected one."""
    kind, text = packed["kind"], packed["text"]
    if kind == "user":
        return LMUnavailable(text, packed["model"]) if packed.get("model") else UserError(text)
    return _STOPS[kind](text) if kind in _STOPS else WorkerError(text)


class WorkerDied(UserError):
    """A worker process has ended unexpectedly."""


Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Job(Generic[Item, Result]):
    """What worker processes do.

    Args:
        work: Called with each item, in threads.
        pack: Returns a result as JSON.
        unpack: Returns the result, in the parent.
        prepare: Called once in each worker, with its number from 0, before the first item.
        expect: Called with each item some time before `work`.
        unfinished: Returns what items have cost that were started and whose result was not sent.
        sent: Called with an item whose result was sent.
    """

    work: Callable[[Item], Result]
    pack: Callable[[Result], Any]
    unpack: Callable[[Any], Result]
    prepare: Callable[[int], None]
    expect: Callable[[Item], None]
    unfinished: Callable[[], Sequence[Mapping[str, float]]]
    sent: Callable[[Item], None]


class Worker(Generic[Item, Result]):
    """The side of the worker process.

    Args:
        link: To the parent.
        job: What to do.
        items: All items; the parent names them by number.
        threads: Items in progress at a time.
    """

    def __init__(self, link: Pipe, job: Job[Item, Result], items: Sequence[Item], threads: int):
        self._link, self._job, self._items, self._threads = link, job, items, threads
        self._sending = threading.Lock()
        self._numbers: queue.Queue[int] = queue.Queue()
        self._stopping = threading.Event()

    def run(self, number: int) -> None:
        """Answer items until the parent says that it is the end, or ends itself.

        Args:
            number: Of this worker, from 0.
        """
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        warnings.showwarning = self._show_warning  # type: ignore[assignment]
        with controlled(lambda text: self._send({"say": text})) as control:
            try:
                self._job.prepare(number)
            except BaseException as error:  # noqa: BLE001 - raised again by the parent
                self._send({"failed": packed_error(error)})
                return
            context = contextvars.copy_context()
            for thread in range(self._threads):
                daemon(self._answer, context, name=f"question-{number}-{thread}")
            self._serve(control.stop)

    def _serve(self, stop_calls: Callable[[], None]) -> None:
        while True:
            try:
                message = receive(self._link)
            except (EOFError, OSError):
                os._exit(1)  # the parent has ended: nobody wants the answers in progress
            for item in message.get("ask", ()):
                self._job.expect(self._items[item])
                self._numbers.put(item)
            if message.get("stop"):
                self._stopping.set()
            if message.get("interrupt"):
                stop_calls()
            if message.get("end"):
                with self._sending:
                    send(self._link, {"unfinished": list(self._job.unfinished())})
                return

    def _answer(self, context: contextvars.Context) -> None:
        while True:
            number = self._numbers.get()
            if self._stopping.is_set():
                self._send({"dropped": number})
                continue
            item = self._items[number]
            outcome = self._outcome(context, item)
            try:
                self._send({"item": number, **outcome}, result_of=item if "result" in outcome else None)
            except (TypeError, ValueError) as error:  # the result is not JSON
                self._send({"item": number, "error": packed_error(error), "stops": False})

    def _outcome(self, context: contextvars.Context, item: Item) -> dict[str, Any]:
        try:
            return {"result": self._job.pack(context.copy().run(self._job.work, item))}
        except BaseException as error:  # noqa: BLE001 - handed over to the parent
            if not isinstance(error, Exception):
                self._stopping.set()
            return {"error": packed_error(error), "stops": not isinstance(error, Exception)}

    def _send(self, message: dict[str, Any], result_of: Item | None = None) -> None:
        try:
            with self._sending:  # also held while costs are listed: what was sent is not among them
                send(self._link, message)
                if result_of is not None:
                    self._job.sent(result_of)
        except OSError:  # the parent has ended
            os._exit(1)

    def _show_warning(
        self, message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: object
    ) -> None:
        kind = "notice" if issubclass(category, UserNotice) else "warning"
        text = str(message) if kind == "notice" else f"{category.__name__}: {message} ({filename}:{lineno})"
        self._send({kind: text})


AHEAD = 64  # items that a worker knows of before it can start them, so that it can prepare for them together
_SLICE = 0.1  # seconds between checks for Ctrl-C
# Seconds that all workers together have after the `GRACE` of Ctrl-C: to say what unfinished items have cost, to end.
_LAST_WORDS, _ENDING = 2.5, 0.5


class _Member(NamedTuple):
    """A worker process, as its parent sees it."""

    process: Any
    link: Pipe
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
        self._children: list[Child] = []
        with undone_by_error(self.close):  # Ctrl-C, or the system starts no further process
            self._start(threads, max(1, min(processes, threads, len(self._items))))
        for member in self._members:
            self._assign(member)

    def _start(self, threads: int, processes: int) -> None:
        with forking(self._children, [signal.SIGINT]) as start:
            for number in range(processes):
                share = threads // processes + (number < threads % processes)
                child = start(_run, self._job, self._items, share, number)
                self._members.append(_Member(*child, set(), share + AHEAD))

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
        end_all(self._children, _ENDING)
        self._members = []

    def _pending(self) -> bool:
        return any(member.assigned for member in self._members)

    def _read(self, seconds: float) -> None:
        ready = wait([member.link for member in self._members], seconds)
        for member in [member for member in self._members if member.link in ready]:
            try:
                message = receive(member.link)
            except (EOFError, OSError):
                self._members.remove(member)
                reason = exit_reason(member.process, _LAST_WORDS)
                raise WorkerDied(
                    f"A worker process ended unexpectedly: {reason}. Rows are kept: resume, with fewer processes."
                ) from None
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


def _run(link: Pipe, job: Job[Any, Any], items: Sequence[Any], threads: int, number: int) -> None:
    Worker(link, job, items, threads).run(number)


_THREADS, _QUESTIONS = 8, 50  # of each process at least, or it costs more than it gains


def processes_for(
    wanted: int | None,
    *,
    threads: int,
    questions: int,
    connection: "Connection",
    judge: "Connection | None" = None,
    local_models: bool = False,
) -> int:
    """Return how many processes ask the questions.

    Args:
        wanted: By the user; None means one per core if that is faster: every LM is on a server, and each process has at
            least 8 threads and 50 questions.
        threads: Questions in progress at a time, over all processes.
        questions: To ask.
        local_models: Whether metrics load a model into the process.

    Raises:
        UserError: Several are wanted, but this process cannot be forked, or there are fewer threads.
    """
    if wanted is not None:
        if wanted > 1 and (reason := why_one_process()):
            raise UserError(f"processes must be 1, not {wanted}, {reason}.")
        if wanted > threads >= 1:
            raise UserError(f"threads ({threads}) must be at least processes ({wanted}): each process has one or more.")
        return wanted
    lms = [connection, *([judge] if judge else [])]
    if local_models or why_one_process() or not all(getattr(item.lm, "remote", False) for item in lms):
        return 1
    return max(1, min(_cores(), threads // _THREADS, questions // _QUESTIONS))


@contextlib.contextmanager
def one_core_each(threads: int) -> Iterator[None]:
    """Let libraries that compute use one core per call in the block, if there are at least as many threads as cores.

    With more they spend most of their time waiting for each other, and they wait actively. `OMP_NUM_THREADS` set by the
    user holds in any case; models that are loaded already keep their threads.
    """
    if "OMP_NUM_THREADS" in os.environ or threads < _cores():
        yield
        return
    from threadpoolctl import threadpool_limits

    os.environ["OMP_NUM_THREADS"] = "1"  # for libraries that are loaded in the block
    try:
        with threadpool_limits(1):
            yield
    finally:
        del os.environ["OMP_NUM_THREADS"]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
