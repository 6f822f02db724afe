"""Vectors of queries: encoded once, kept, and made ahead for queries that are known before they are asked."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from signatures.common.per_process import PerProcess

KEPT_BYTES = 64_000_000  # of vectors and texts; 38,000 questions with vectors of 384 numbers
AHEAD = 32  # queries encoded ahead between two looks at `stop`
_WINDOW = 8 * AHEAD  # queries sorted by their length, so that those of a batch are about equally long

Vectors = NDArray[np.float32]
Encode = Callable[[Sequence[str]], Vectors]


def never() -> bool:
    """Return False: nothing stops the work."""
    return False


class QueryVectors:
    """An encoder of queries that keeps the vectors of the latest queries. Safe under threads.

    Args:
        encode: Returns the vectors of n texts, shape (n, d).
        kept_bytes: Of all kept vectors and their texts; the least recently used are dropped.
    """

    def __init__(self, encode: Encode, *, kept_bytes: int = KEPT_BYTES):
        self._encode, self._kept_bytes = encode, kept_bytes
        self._kept: OrderedDict[str, NDArray[np.float32]] = OrderedDict()
        self._bytes = 0
        self._lock = PerProcess(threading.Lock)

    def __len__(self) -> int:
        return len(self._kept)

    def __call__(self, queries: Sequence[str]) -> Vectors:
        """Return the vectors of `queries`, shape (len(queries), d); only those that are not kept are encoded."""
        return np.stack(self.each(queries)) if queries else self._encode(queries)

    def each(self, texts: Sequence[str]) -> list[NDArray[Any]]:
        """Return the same one by one: what is kept of a text may also be the vectors of its tokens."""
        found = self._look_up(texts)
        missing = list(dict.fromkeys(text for text in texts if text not in found))
        if missing:
            vectors = self._encode(missing)
            found.update(zip(missing, vectors, strict=True))
            self._keep(missing, vectors)
        return [found[text] for text in texts]

    def prefetch(self, queries: Sequence[str], stop: Callable[[], bool] = never) -> None:
        """Encode `queries` ahead, in their order up to windows of 256, and keep their vectors.

        Args:
            queries: In the order in which they will be asked. No more are encoded than can be kept.
            stop: Asked between batches of 32; True ends the work.
        """
        ahead = 0
        for start in range(0, len(queries), _WINDOW):
            window = list(dict.fromkeys(queries[start : start + _WINDOW]))
            known = self._look_up(window)
            todo = sorted((query for query in window if query not in known), key=len)
            for first in range(0, len(todo), AHEAD):
                if stop():
                    return
                batch = todo[first : first + AHEAD]
                vectors = self._encode(batch)
                ahead += sum(map(_size, batch, vectors))
                if ahead > self._kept_bytes:
                    return
                self._keep(batch, vectors)

    def _look_up(self, queries: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        found = {}
        with self._lock():
            for query in queries:
                if (vector := self._kept.get(query)) is not None:
                    self._kept.move_to_end(query)
                    found[query] = vector
        return found

    def _keep(self, queries: Sequence[str], vectors: Vectors) -> None:
        with self._lock():
            for query, vector in zip(queries, vectors, strict=True):
                if query not in self._kept:
                    self._kept[query] = vector.copy()  # a view would keep its whole batch in memory
                    self._bytes += _size(query, vector)
            while self._bytes > self._kept_bytes and self._kept:
                self._bytes -= _size(*self._kept.popitem(last=False))


def _size(query: str, vector: NDArray[np.float32]) -> int:
    return vector.nbytes + len(query)
