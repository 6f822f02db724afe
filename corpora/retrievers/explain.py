"""Why a passage was found: its place in each of the rankings that led to it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from signatures.types import Passage, Retriever

BEFORE = "before reranking"


class Place(NamedTuple):
    """The place of a passage in one ranking.

    Args:
        by: What ranked: "bm25", "bm25s", "dense", "hops" (what other passages lead to), `BEFORE`, the name of an own
            retriever, or "text of ID" for a reranker that searched with that passage.
        rank: From 1; None if the passage is not among the candidates that this ranking gave.
        score: Of that ranking; None without a rank, or if it has none.
    """

    by: str
    rank: int | None
    score: float | None


class Explained(NamedTuple):
    """A passage as its retriever returned it, and its places in the rankings that it came from."""

    passage: Passage
    places: tuple[Place, ...]


@runtime_checkable
class Explaining(Protocol):
    """A retriever that says where a passage came from."""

    def explain(self, query: str, k: int) -> list[Explained]:
        """Return the passages that a call returns, in the same order, each with its places."""


def explain(retriever: Retriever, query: str, k: int) -> list[Explained]:
    """Return what a retriever returns for a query, explained; without places if it cannot explain itself."""
    if isinstance(retriever, Explaining):
        return retriever.explain(query, k)
    return [Explained(passage, ()) for passage in retriever(query, k)]


def places_in(by: str, ranking: Sequence[Passage]) -> dict[str, Place]:
    """Return the place of each passage of a ranking, by id."""
    return {passage.id: Place(by, rank, passage.score) for rank, passage in enumerate(ranking, start=1)}
