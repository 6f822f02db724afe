"""The tools of MCP over standard input and output, one message a line, kept apart from all else that prints."""

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from experiments.service.leaving import in_thread

if TYPE_CHECKING:
    from experiments.service.app import Service


@dataclass
class Wire:
    """What messages come and go on, as the SDK reads and writes it.

    Reads and writes are done in threads that nothing waits for, since nobody can interrupt a read, not even Ctrl-C.

    Args:
        incoming: What the client writes.
        outgoing: What the client reads.
    """

    incoming: BinaryIO
    outgoing: BinaryIO
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def lines(self) -> AsyncIterator[str]:
        """Yield the lines that are messages, and answer the others: the SDK would drop them in silence."""
        while line := await in_thread(self.incoming.readline):
            text = line.decode(errors="replace").strip()
            if text and (refusal := _refusal(text)) is not None:
                await self.write(f"{refusal}\n")
            elif text:
                yield text

    async def write(self, text: str) -> None:
        """Write a text, and wait until it is on its way."""
        async with self._writing:
            await in_thread(partial(self._write, text.encode()))

    async def flush(self) -> None:
        """Return at once, since nothing is held back."""

    def _write(self, data: bytes) -> None:
        self.outgoing.write(data)
        self.outgoing.flush()


def _refusal(line: str) -> str | None:
    """Return the answer to a line that is no message of JSON-RPC, e.g. one with a lone surrogate; None to others."""
    import mcp_types
    from pydantic import ValidationError

    try:
        mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            said = mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message=f"Not valid JSON: {first['ctx']['error']}.")
        else:
            said = mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message="Not a message of JSON-RPC 2.0.")
        refusal = mcp_types.JSONRPCError(jsonrpc="2.0", id=_id(line), error=said)
        return refusal.model_dump_json(by_alias=True, exclude_unset=True)
    return None


def _id(line: str) -> int | str | None:
    """Return the id of a request that cannot be read whole, so that its client need not wait; None if it has none."""
    try:
        message: Any = json.loads(line)  # which reads lone surrogates
        found = message["id"] if "method" in message else None
        if isinstance(found, str):
            found.encode()
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return found if isinstance(found, int | str) and not isinstance(found, bool) else None


@contextlib.contextmanager
def claimed() -> Iterator[Wire]:
    """Keep standard input and output for messages during the block.

    Nothing else can be read then, and what anything else prints (own code, libraries, other processes) goes to standard
    error.
    """
    _flush()
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        # Never closed: a thread may be reading or writing until the process ends.
        yield Wire(os.fdopen(incoming, "rb", closefd=False), os.fdopen(outgoing, "wb", closefd=False))
    finally:
        _flush()
        os.dup2(incoming, 0)
        os.dup2(outgoing, 1)
        os.close(nothing)


def _flush() -> None:
    """Write now what was printed and is held back, by Python and by the C library."""
    sys.stdout.flush()
    with contextlib.suppress(OSError, TypeError, AttributeError):  # a system whose C library is no part of the process
        ctypes.CDLL(None).fflush(None)


def serve_over_stdio(service: "Service", wire: Wire) -> None:
    """Offer a service as tools of MCP until the client ends, or Ctrl-C comes; questions in progress are then stopped.

    Raises:
        KeyboardInterrupt: SIGINT came, and nothing goes on.
    """
    from experiments.service.tools import make_tools

    interrupted: list[bool] = []

    async def answer() -> None:
        loop, task, before = asyncio.get_running_loop(), asyncio.current_task(), signal.getsignal(signal.SIGINT)
        assert task is not None

        def restore() -> None:
            if loop.remove_signal_handler(signal.SIGINT):
                signal.signal(signal.SIGINT, before)

        def interrupt() -> None:
            restore()  # a second Ctrl-C waits for nothing
            interrupted.append(True)
            task.cancel()

        with contextlib.suppress(NotImplementedError):  # Windows, where Ctrl-C ends the loop itself
            loop.add_signal_handler(signal.SIGINT, interrupt)  # which wakes the loop, whatever thread gets the signal
        try:
            await make_tools(service).run_over(wire.lines(), wire)
        finally:
            restore()

    try:
        asyncio.run(answer())
    except* BrokenPipeError:
        pass  # the client has ended, and reads no more
    except* (asyncio.CancelledError, Exception):
        if not interrupted:  # else the SDK was cancelled, with a message on its way perhaps
            raise
    if interrupted:
        signal.raise_signal(signal.SIGINT)  # for whoever counts them
