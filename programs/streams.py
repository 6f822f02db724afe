"""One question in a thread of its own: stopped when nobody waits for it any more, its hops told as they settle."""

import asyncio
import concurrent.futures
import contextlib
import contextvars
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import dspy

from programs.lms.calls.control import Control, current_control, under
from programs.parts.meter import beside, counts_so_far, metered
from programs.parts.prediction import Listener, hops_heard_by
from programs.parts.threads import Threads, caught
from signatures.types import Hop

_LOOK, _END = 0.2, 5.0  # seconds between looks; that a stopped question has to end its call or search in progress


class Work:
    """A question that is answered in another thread, in a copy of the caller's context.

    A listener receives its hops there. The meter joins when the caller learns of the end: what began before ran beside.
    """

    def __init__(self, answer: Callable[[], Any], listener: Listener | None, threads: Threads):
        self.future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._control, self.meter = Control(outer=current_control()), beside()
        self._ended = threading.Event()
        self.future.add_done_callback(lambda _: self._ended.set())
        heard = partial(hops_heard_by, listener) if listener else contextlib.nullcontext

        def work() -> Any:
            with under(self._control), heard(), metered(self.meter):
                return answer()

        def run() -> None:
            if not self.future.set_running_or_notify_cancel():
                return
            end = caught(work)
            self._control.stop()
            if end.error is None:
                self.future.set_result(end.value)
            else:
                self.future.set_exception(end.error)

        threads.run(partial(contextvars.copy_context().run, run))

    def end(self) -> None:
        """Stop the work, if it has not ended, and wait until it has."""
        self._stop()
        self._ended.wait(_END)
        self.meter.join()

    async def aend(self) -> None:
        """Do the same without blocking the event loop."""
        self._stop()
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        self.future.add_done_callback(lambda _: _in_loop(loop, ended.set))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), _END)
        self.meter.join()

    def _stop(self) -> None:
        self.future.cancel()  # if it waits for a thread
        self._control.stop(grace=0)


class Stream:
    """The hops of one question as they settle, then its prediction; each iteration asks anew.

    `begin` starts the work with a listener. `costs` has the counts of `programs.parts.meter.Meter` when each hop of the
    last iteration settled: of all hops that were yielded, and perhaps of further ones.
    """

    def __init__(self, begin: Callable[[Listener], Work]):
        self._begin = begin
        self.costs: list[dict[str, float]] = []

    def __iter__(self) -> Iterator[Hop | dspy.Prediction]:
        """Yield the hops, then the prediction."""
        told: queue.Queue[Hop | None] = queue.Queue()  # not SimpleQueue: see `programs.lms.batching.Worker`
        work = self._begin(self._costing(told.put))
        work.future.add_done_callback(lambda _: told.put(None))
        try:
            while (hop := _next(told)) is not None:
                yield hop
            yield work.future.result()
        finally:
            work.end()

    async def __aiter__(self) -> AsyncIterator[Hop | dspy.Prediction]:
        """Yield the hops, then the prediction, without blocking the event loop."""
        told: asyncio.Queue[Hop | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def tell(hop: Hop | None) -> None:
            _in_loop(loop, partial(told.put_nowait, hop))

        work = self._begin(self._costing(tell))
        work.future.add_done_callback(lambda _: tell(None))
        try:
            while (hop := await told.get()) is not None:
                yield hop
            yield work.future.result()
        finally:
            await work.aend()

    def _costing(self, tell: Listener) -> Listener:
        """Return a listener that keeps what was spent until a hop before it tells of the hop."""
        costs = self.costs = list[dict[str, float]]()

        def heard(hop: Hop) -> None:
            costs.append(counts_so_far())  # in the thread of the work, whose meter this is
            tell(hop)

        return heard


def _next(told: "queue.Queue[Hop | None]") -> Hop | None:
    """Return the next item; Ctrl-C ends the wait (see `programs.parts.threads.wait_for`)."""
    while True:
        with contextlib.suppress(queue.Empty):
            return told.get(timeout=_LOOK)


def _in_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(call)
