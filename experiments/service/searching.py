"""Search for many clients: a few searches at a time, the others wait, in parts between which a client may leave."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from experiments.service.failures import Failure, Refused
from experiments.service.leaving import in_thread
from experiments.service.limits import Limits
from signatures.types import Passage, Retriever

Found = TypeVar("Found")
PART = 16  # queries searched for at once: a search in progress cannot be stopped, and holds its place
_FULL = Failure(503, "queue_full", "Too many searches are waiting. Search again in a few seconds.")


class Searching:
    """Searches with one retriever. Whoever waits for a result may be cancelled: its next part is not searched for.

    Args:
        retrieve: Ranks passages.
        limits: `searches` run at a time, and as many requests as `queue` wait.
    """

    def __init__(self, retrieve: Retriever, limits: Limits):
        self.retrieve, self._limits = retrieve, limits
        self._places = asyncio.Semaphore(limits.searches)
        self._accepted = 0

    async def many(self, queries: Sequence[str], k: int, shape: Callable[[Passage], Found]) -> list[list[Found]]:
        """Return the rankings of queries, at most `k` passages each, with `shape` applied to each passage.

        Raises:
            Refused: The queue is full.
        """

        def search(part: Sequence[str]) -> list[list[Found]]:
            return [[shape(passage) for passage in ranking] for ranking in self.retrieve.many(part, k)]

        parts = [queries[place : place + PART] for place in range(0, len(queries), PART)]
        found = await self._in_turn([partial(search, part) for part in parts])
        return [ranking for part in found for ranking in part]

    async def run(self, search: Callable[[], Found]) -> Found:
        """Return what one search returns.

        Raises:
            Refused: The queue is full.
        """
        return (await self._in_turn([search]))[0]

    async def _in_turn(self, searches: Sequence[Callable[[], Found]]) -> list[Found]:
        if self._accepted >= self._limits.searches + self._limits.queue:
            raise Refused(_FULL)
        self._accepted += 1
        try:
            return [await self._one(search) for search in searches]
        finally:
            self._accepted -= 1

    async def _one(self, search: Callable[[], Found]) -> Found:
        await self._places.acquire()
        work = in_thread(search)
        work.add_done_callback(self._ended)
        return await asyncio.shield(work)

    def _ended(self, work: "asyncio.Future[Found]") -> None:
        """Free the place of a search when it ends; if its client's leaving freed it, more would run at a time."""
        self._places.release()
        if not work.cancelled():
            work.exception()  # seen, although nobody may wait for it
