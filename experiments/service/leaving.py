"""Work for a client that may leave: it ends when the client does, or nobody waits for it; and its place is free."""

import asyncio
import contextlib
import contextvars
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeVar

import anyio

from programs.parts.threads import Ended, caught, daemon

Result = TypeVar("Result")
_ENDED = "verihop.ended"


async def unless_left(work: Awaitable[Result], left: Awaitable[object]) -> Result | None:
    """Return the result of the work, or cancel it when the client has left and return None."""
    task, leaving = asyncio.ensure_future(work), asyncio.ensure_future(left)
    try:
        await asyncio.wait((task, leaving), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for each in (task, leaving):
            each.cancel()
        # A scope of anyio cancels whatever waits in it again and again, so that nothing could end in peace.
        with anyio.CancelScope(shield=True):
            await asyncio.gather(task, leaving, return_exceptions=True)


def in_thread(work: Callable[[], Result]) -> "asyncio.Future[Result]":
    """Begin work that blocks, in a copy of the context; unlike `asyncio.to_thread`, the process may end before it."""
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    future: asyncio.Future[Result] = loop.create_future()

    def tell(how: Ended[Result]) -> None:
        if future.done():  # cancelled
            return
        if isinstance(how.error, StopIteration):  # which no future can hold: whoever waits would wait for ever
            future.set_exception(RuntimeError("StopIteration was raised"))
        elif how.error is not None:
            future.set_exception(how.error)
        else:
            future.set_result(how.value)

    def run() -> None:
        how = context.run(caught, work)
        with contextlib.suppress(RuntimeError):  # the loop is closed, and whoever waited is gone
            loop.call_soon_threadsafe(tell, how)

    daemon(run, name="service")
    return future


class Exchanges:
    """Lets the work for a request know when its exchange has ended, which is early if the client has left."""

    def __init__(self, application: Callable[..., Awaitable[None]]):
        self._application = application

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Answer a request."""
        ended = asyncio.Event()
        try:
            await self._application({**scope, _ENDED: ended}, receive, send)
        finally:
            ended.set()


def ended(scope: MutableMapping[str, Any]) -> asyncio.Event:
    """Return what is set when the exchange of a request ends; never, if it did not come through `Exchanges`."""
    found: asyncio.Event = scope.get(_ENDED) or asyncio.Event()
    return found
