"""Waiting for threads: Ctrl-C ends it, whichever thread the system gives the signal to."""

import asyncio
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from programs.parts.threads import Started, Threads, result_of, run_all, wait_for

LONG = 30  # seconds; only a wait that Ctrl-C does not end takes them


def interrupt_here() -> None:
    """Let this thread get the signal, as the system may choose to."""
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)


def run(work: Callable[[], None]) -> None:
    run_all([work], width=1, name="test")


def wait(work: Callable[[], None]) -> None:
    done = threading.Event()
    threading.Thread(target=lambda: (work(), done.set()), daemon=True).start()
    wait_for(done)


def resolve(work: Callable[[], None]) -> None:
    future: Future[None] = Future()
    threading.Thread(target=lambda: (work(), future.set_result(None)), daemon=True).start()
    result_of(future)


@pytest.mark.parametrize("waiting", [run, wait, resolve])
def test_a_wait_ends_when_another_thread_gets_the_signal(waiting):
    released, finished = threading.Event(), threading.Event()

    def work() -> None:
        interrupt_here()
        released.wait(LONG)
        finished.set()

    try:
        with pytest.raises(KeyboardInterrupt):
            waiting(work)
        assert not finished.is_set()
    finally:
        released.set()


def test_no_one_waits_for_a_thread_that_died_before_its_work_began(monkeypatch):
    monkeypatch.setattr(threading.Thread, "run", lambda thread: None)
    started = Started(lambda: 1, name="lost")
    assert started.wait(0.1)
    for ended in (started, *run_all([lambda: 1], width=1, name="lost")):
        with pytest.raises(RuntimeError, match="lost.* died before its work began"):
            ended.result()


def test_places_in_an_event_loop_and_threads_share_the_width() -> None:
    threads, told, held = Threads(1), [], threading.Event()

    async def take(name):
        async with threads.place():
            told.append(name)
            await asyncio.sleep(0)

    async def main():
        threads.run(lambda: told.append("thread") if held.wait(LONG) else None)
        waiting = [asyncio.create_task(take(name)) for name in ("a", "b", "c")]
        await asyncio.sleep(0)
        waiting[1].cancel()
        held.set()
        await asyncio.gather(*waiting, return_exceptions=True)
        ended = threading.Event()
        threads.run(ended.set)  # the place is free again
        assert await asyncio.to_thread(ended.wait, LONG)

    asyncio.run(main())
    assert told == ["thread", "a", "c"]


def test_a_place_that_is_granted_to_who_is_cancelled_at_that_moment_is_passed_on() -> None:
    threads = Threads(1)

    async def take():
        async with threads.place():
            return True

    async def main():
        async with threads.place():
            late = asyncio.create_task(take())
            await asyncio.sleep(0)
        late.cancel()  # granted, but it has not run since
        assert isinstance((await asyncio.gather(late, return_exceptions=True))[0], asyncio.CancelledError)
        return await asyncio.wait_for(take(), LONG)

    assert asyncio.run(main())
