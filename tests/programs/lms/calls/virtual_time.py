"""Threads in virtual time: one runs at a time, and time passes only when all wait, so that runs are repeatable."""

import heapq
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from programs.lms.calls.control import Clock


class _Sleeper:
    def __init__(self, event: threading.Event | None, until: float):
        self.event, self.until = event, until
        self.go = threading.Semaphore(0)
        self.awake = False


class VirtualClock(Clock):
    """The clock of threads that `run` starts; they wait only through it."""

    def __init__(self) -> None:
        self._now = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, _Sleeper]] = []
        self._ended = threading.Event()
        self._left = 0

    def now(self) -> float:
        return self._now

    def wait(self, event: threading.Event | None, seconds: float) -> None:
        sleeper = _Sleeper(event, self._now + seconds)
        heapq.heappush(self._sleepers, (sleeper.until, next(self._order), sleeper))
        self._pass_on()
        sleeper.go.acquire()

    def sleep(self, seconds: float) -> None:
        self.wait(None, seconds)

    def _pass_on(self) -> None:
        """Wake the thread whose event is set, else the one that sleeps the shortest."""
        if not self._sleepers:
            self._ended.set()
            return
        called = min((item for item in self._sleepers if item[2].event and item[2].event.is_set()), default=None)
        chosen = called or self._sleepers[0]
        self._sleepers.remove(chosen)
        heapq.heapify(self._sleepers)
        if called is None:
            self._now = max(self._now, chosen[0])
        chosen[2].go.release()

    def run(self, work: Callable[[Any], None], shares: Sequence[Any]) -> None:
        """Call `work` with each share in a thread of its own; return when all have ended."""

        def body(share: Any, start: _Sleeper) -> None:
            start.go.acquire()
            try:
                work(share)
            finally:
                self._pass_on()

        for share in shares:
            start = _Sleeper(None, self._now)
            heapq.heappush(self._sleepers, (self._now, next(self._order), start))
            threading.Thread(target=body, args=(share, start), daemon=True).start()
        self._ended.clear()
        self._pass_on()
        assert self._ended.wait(60)
