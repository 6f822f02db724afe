"""What a worker process and its parent say to each other, JSON over a pipe and never a pickle, and how it ends."""

import json
import time
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from programs.lms.calls.budget import BudgetExceeded
from programs.lms.calls.control import Stopped
from programs.lms.calls.metered import LMUnavailable
from signatures.common.errors import UserError

Message = dict[str, Any]

_STOPS: dict[str, type[BaseException]] = {kind.__name__: kind for kind in (BudgetExceeded, Stopped)}


class WorkerError(RuntimeError):
    """The work of a worker process failed unexpectedly; the message contains its traceback."""


class WorkerDied(UserError):
    """A worker process has ended unexpectedly."""


def exit_reason(code: int | None) -> str:
    """Return why a process ended that was not told to, by its exit code, which is negative for a signal."""
    reason = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
    return f"{reason} (9 is what the system sends when memory runs out)" if code == -9 else reason


def end_processes(processes: Sequence[Any], seconds: float) -> None:
    """Send SIGTERM to all processes, and SIGKILL to those that have not ended within `seconds`, all together."""
    for process in processes:
        process.terminate()
    until = time.monotonic() + seconds
    for process in processes:
        process.join(max(0.0, until - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()


def send(link: Connection, message: Message) -> None:
    """Send a message.

    Raises:
        TypeError: A value in it is not JSON.
        OSError: The other process has ended.
    """
    # LMs can write lone surrogates, which stay as they are in escaped JSON.
    link.send_bytes(json.dumps(message).encode())


def receive(link: Connection) -> Message:
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
