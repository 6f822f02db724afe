"""Processes that work for this one: how they are started, what they say, and how they end.

The processes are forks, so that programs and connections need no serialised form. They are started before anything that
forks badly is: models, the progress bar's thread. Where there is no fork (Windows), or where it is unsafe (macOS),
there are threads only. A terminal sends Ctrl-C to all processes, so each begins with signals blocked, until it can
ignore them or end in order. Parent and process notice each other's end by the pipe between them.
"""

import contextlib
import json
import multiprocessing
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection as Pipe
from typing import Any, NamedTuple

from programs.lms.calls.budget import BudgetExceeded
from programs.lms.calls.control import Stopped
from programs.lms.calls.metered import LMUnavailable
from signatures.common.errors import UserError

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
        process = context.Process(target=_run, args=(inherited, run, theirs, *arguments), daemon=True)
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


def _run(inherited: Sequence[Pipe], run: Callable[..., None], *arguments: Any) -> None:
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
