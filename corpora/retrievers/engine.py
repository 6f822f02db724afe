"""Shared by all retrievers of an index: engines rank rows, `IndexRetriever` returns the passages of the rows."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from corpora.encoders.query_vectors import never
from corpora.retrievers.explain import Explained, Place
from corpora.retrievers.store import PassageStore
from signatures.common.errors import UserError
from signatures.common.files import utf8
from signatures.common.per_process import Uncopied
from signatures.types import Passage

Rows = NDArray[np.int64]
Scores = NDArray[np.float64]


class Ranking(NamedTuple):
    """Rows of the corpus, best first, and their scores (higher is better), of the same length."""

    rows: Rows
    scores: Scores


EMPTY = Ranking(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float64))


class Engine(Protocol):
    """Ranks rows for queries that are not blank and contain no lone surrogates; safe under threads."""

    name: str

    def rank(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """Return one ranking of at most `k` rows per query, in the order of `queries`."""


@runtime_checkable
class Fusing(Protocol):
    """An engine whose ranking is made from rankings of others."""

    def parts(self, query: str, k: int) -> dict[str, Ranking]:
        """Return the rankings that `rank` fuses for the best `k`, by the names of their engines."""


@runtime_checkable
class Leading(Protocol):
    """An engine that continues from a passage."""

    def follow(self, asked: Sequence[tuple[str, dict[str, str]]], k: int) -> list[Ranking]:
        """Return for each query and passage (its title and text) at most `k` rows that come next."""


@runtime_checkable
class Prefetching(Protocol):
    """What can do work for queries before they are asked: all retrievers of this folder, and dense engines.

    `prefetch` may run in its own thread while others query. A query that was prefetched returns the same passages
    as without it, up to the rounding of scores, and does not encode.
    """

    def prefetch(self, queries: Sequence[str], stop: Callable[[], bool] = never) -> None:
        """Encode `queries` ahead in batches, in their order up to windows of 256; without vectors nothing is done.

        Args:
            queries: In the order in which they will be asked.
            stop: Asked between batches of 32 queries; True ends the work.
        """


def best(rows: Rows, scores: Scores, k: int) -> Ranking:
    """Return the `k` best of the scored `rows`; equal scores are in corpus order."""
    order = np.lexsort((rows, -scores))[:k]
    return Ranking(rows[order], scores[order])


def check_k(k: int) -> None:
    """Raise UserError if `k` is below 1."""
    if k < 1:
        raise UserError(f"k={k}: at least one passage must be requested.")


def _places(name: str, ranking: Ranking) -> dict[int, Place]:
    pairs = zip(ranking.rows.tolist(), ranking.scores.tolist(), strict=True)
    return {row: Place(name, rank, score) for rank, (row, score) in enumerate(pairs, start=1)}


class IndexRetriever(Uncopied):
    """The `Retriever` of an opened index: passages of one corpus, ranked by one engine.

    The result of a blank query is empty.

    Args:
        engine: Ranks rows.
        store: The passages by row.
        fingerprint: Changes with the corpus, the engine and its settings.
        folder: Of the index, absolute; None if it was not opened from one.
    """

    def __init__(self, engine: Engine, store: PassageStore, fingerprint: str, folder: Path | None = None):
        self.engine, self.folder, self.fingerprint = engine, folder, fingerprint
        self._store = store

    def __len__(self) -> int:
        return len(self._store)

    def by(self, engine: Engine, fingerprint: str) -> Self:
        """Return the retriever of the same passages by another engine."""
        return type(self)(engine, self._store, fingerprint, self.folder)

    def load(self) -> None:
        """Load the embedder and the files of the index, which the first query would do."""
        self("load", 1)

    def missing(self, ids: Iterable[str]) -> set[str]:
        """Return those of `ids` that no passage of the index has."""
        return self._store.missing(ids)

    def titles(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the titles of those of `ids` that are in the index and have one, by id."""
        return {passage.id: passage.title for passage in self.passages(ids) if passage.title}

    def passages(self, ids: Iterable[str]) -> list[Passage]:
        """Return the passages with these ids that are in the index, without a score, in the order of `ids`."""
        wanted = list(dict.fromkeys(ids))
        rows = self._store.rows_of(wanted)
        places = [rows[id] for id in wanted if id in rows]
        found = self._store.passages(np.asarray(places, dtype=np.int64), np.zeros(len(places)))
        return [passage.model_copy(update={"score": None}) for passage in found]

    def __call__(self, query: str, k: int) -> list[Passage]:
        """Return at most `k` passages, best first; equal scores are in corpus order.

        Raises:
            UserError: `k` is below 1.
        """
        return self.many([query], k)[0]

    def many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the same as one call per query, but faster.

        Dense scores of a batch and of a single query may differ by 1e-5, since matrix products round differently.

        Raises:
            UserError: `k` is below 1.
        """
        check_k(k)
        if isinstance(queries, str):
            raise TypeError("many() takes a list of queries, not one text.")
        clean = [utf8(query) for query in queries]
        places = [place for place, query in enumerate(clean) if query.strip()]
        results: list[list[Passage]] = [[] for _ in queries]
        if not places:
            return results
        rankings = self.engine.rank([clean[place] for place in places], min(k, len(self._store)))
        for place, passages in zip(places, self._passages_of(rankings), strict=True):
            results[place] = passages
        return results

    def follow(self, asked: Sequence[tuple[str, Passage]], k: int) -> list[list[Passage]] | None:
        """Return for each query and passage at most `k` passages that come next; None if the engine has no hops."""
        if not isinstance(self.engine, Leading):
            return None
        records = [(utf8(query), {"title": passage.title, "text": passage.text}) for query, passage in asked]
        return self._passages_of(self.engine.follow(records, min(k, len(self._store))))

    def _passages_of(self, rankings: Sequence[Ranking]) -> list[list[Passage]]:
        """Return the passages of rankings, in one look-up: one for each would double the cost."""
        if not rankings:
            return []
        passages = iter(self._store.passages(*(np.concatenate(part) for part in zip(*rankings, strict=True))))
        return [list(islice(passages, len(ranking.rows))) for ranking in rankings]

    def explain(self, query: str, k: int) -> list[Explained]:
        """Return what a call returns, each passage with its places in the rankings of the engines.

        Raises:
            UserError: `k` is below 1.
        """
        check_k(k)
        clean = utf8(query)
        if not clean.strip():
            return []
        engine, count = self.engine, min(k, len(self._store))
        ranking = engine.rank([clean], count)[0]
        parts = engine.parts(clean, count) if isinstance(engine, Fusing) else {engine.name: ranking}
        places = {name: _places(name, part) for name, part in parts.items()}
        found = zip(self._store.passages(*ranking), ranking.rows.tolist(), strict=True)
        return [
            Explained(passage, tuple(own.get(row, Place(name, None, None)) for name, own in places.items()))
            for passage, row in found
        ]

    def prefetch(self, queries: Sequence[str], stop: Callable[[], bool] = never) -> None:
        """Encode `queries` ahead (see `Prefetching`); without an embedder nothing is done."""
        if isinstance(self.engine, Prefetching):
            self.engine.prefetch([clean for query in queries if (clean := utf8(query)).strip()], stop)

    def __repr__(self) -> str:
        return f"IndexRetriever({self.fingerprint}, {len(self)} passages)"
