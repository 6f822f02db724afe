"""Work that ends when its client leaves, and work in threads that nothing waits for."""

import asyncio
import threading

import anyio
import pytest

from experiments.service.leaving import in_thread, unless_left


def test_work_that_is_stopped_ends_in_peace_in_a_cancelled_scope():
    """The SDK of MCP cancels a scope of anyio, which cancels again and again what waits in it."""
    ended = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            ended.append("whole")

    async def leave() -> None:
        with anyio.CancelScope() as scope:
            asyncio.get_running_loop().call_later(0.01, scope.cancel)
            await unless_left(work(), asyncio.Event().wait())

    asyncio.run(leave())
    assert ended == ["whole"]


@pytest.mark.parametrize(("error", "raised"), [(ValueError("own"), ValueError), (StopIteration(), RuntimeError)])
def test_an_error_in_a_thread_reaches_whoever_waits(error, raised):
    def fail() -> None:
        raise error

    async def wait() -> None:
        await asyncio.wait_for(in_thread(fail), 30)

    with pytest.raises(raised):
        asyncio.run(wait())


def test_a_thread_does_not_keep_the_loop_from_ending():
    held, ended = threading.Event(), []

    async def leave() -> str:
        in_thread(lambda: ended.append(held.wait(30)))
        return "left"

    assert (asyncio.run(leave()), ended) == ("left", [])
    held.set()
