"""Fusion of BM25 and dense rankings, by their scores; of any rankings, by ranks."""

from collections.abc import Callable, Hashable, Sequence
from typing import Self, TypeVar

import numpy as np

from corpora.encoders.query_vectors import never
from corpora.retrievers.bm25 import Bm25Engine
from corpora.retrievers.dense import DenseEngine
from corpora.retrievers.engine import Prefetching, Ranking, Scores, best
from signatures.common.errors import UserError
from signatures.types import Passage, Retriever

Item = TypeVar("Item", bound=Hashable)
RRF_K = 10  # the usual 60 was the weakest value measured


def fuse_scores(bm25: Scores, cosines: Scores, weight: float) -> Scores:
    """Return `(1 - weight) * bm25 / max + weight * (cosine + 1) / max(cosine + 1)`, in [0, 1].

    Args:
        bm25: BM25 score of each candidate, 0 if BM25 did not retrieve it; shape (n,).
        cosines: Cosine of each candidate, in [-1, 1]; shape (n,).
        weight: Share of the dense score, in [0, 1].
    """
    near = cosines + 1.0
    parts = ((1.0 - weight, bm25), (weight, near))
    fused = np.zeros(len(bm25), dtype=np.float64)
    for share, scores in parts:
        top = scores.max(initial=0.0)
        if top > 0:
            fused += share * (scores / top)
    return fused


def reciprocal_rank_fusion(rankings: Sequence[Sequence[Item]], k: int = RRF_K) -> list[tuple[Item, float]]:
    """Return all items with the sum of `1 / (k + rank)` over the rankings that contain them (rank from 1), best first.

    Items with equal sums are in order of first appearance, first ranking first. A repeat within one ranking counts
    once. Cormack et al., SIGIR 2009.

    Raises:
        UserError: `k` is negative.
    """
    if k < 0:
        raise UserError(f"k={k}: reciprocal rank fusion needs k >= 0.")
    sums: dict[Item, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(dict.fromkeys(ranking), start=1):
            sums[item] = sums.get(item, 0.0) + 1.0 / (k + rank)
    return sorted(sums.items(), key=lambda pair: -pair[1])


class HybridEngine:
    """Ranks the union of the best candidates of BM25 and of the dense engine by their fused scores.

    The cosine of a candidate that only BM25 retrieved is computed; the BM25 score of one that only the dense engine
    retrieved is 0.

    Args:
        bm25: Ranks by BM25.
        dense: Ranks by cosine.
        weight: Share of the dense score, in [0, 1].
        candidates: Passages taken from each ranking, or `k` if that is more.
    """

    name = "hybrid"

    def __init__(self, bm25: Bm25Engine, dense: DenseEngine, *, weight: float = 0.7, candidates: int = 100):
        self.bm25, self.dense = bm25, dense
        self._weight, self._candidates = weight, candidates

    def rank(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """Return one ranking per query, with fused scores in [0, 1]."""
        depth = max(k, self._candidates)
        by_words = self.bm25.rank(queries, depth)
        rankings: list[Ranking] = []
        for vectors in self.dense.encode(queries):
            for vector, rows in zip(vectors, self.dense.candidates(vectors, depth), strict=True):
                near = best(rows, self.dense.scores(vector, rows), depth)
                rankings.append(self._fuse(by_words[len(rankings)], near, vector, k))
        return rankings

    def parts(self, query: str, k: int) -> dict[str, Ranking]:
        """Return the two rankings that are fused for the best `k`, by the names of their engines."""
        depth = max(k, self._candidates)
        return {engine.name: engine.rank([query], depth)[0] for engine in (self.bm25, self.dense)}

    def prefetch(self, queries: Sequence[str], stop: Callable[[], bool] = never) -> None:
        """Encode `queries` ahead; see `Prefetching`."""
        self.dense.prefetch(queries, stop)

    def _fuse(self, words: Ranking, near: Ranking, vector: np.ndarray, k: int) -> Ranking:
        order = np.argsort(near.rows)
        near_rows = near.rows[order]
        places = np.searchsorted(near_rows, words.rows)
        both = places < len(near_rows)
        both[both] = near_rows[places[both]] == words.rows[both]
        missing = words.rows[~both]
        rows = np.concatenate([near_rows, missing])
        cosines = np.concatenate([near.scores[order], self.dense.scores(vector, missing)])
        bm25 = np.zeros(len(rows), dtype=np.float64)
        bm25[places[both]] = words.scores[both]
        bm25[len(near_rows) :] = words.scores[~both]
        # Rounded like the cosines, so that passages with equal scores tie.
        return best(rows, np.round(fuse_scores(bm25, cosines, self._weight), 6), k)


class RankFusion:
    """A `Retriever` over retrievers of one corpus whose scores need not be comparable: reciprocal rank fusion.

    Args:
        retrievers: At least one; earlier ones win ties.
        k: The constant of the fusion, not the number of passages.
        candidates: Passages taken from each ranking, or `k` if that is more.
    """

    def __init__(self, retrievers: Sequence[Retriever], *, k: int = RRF_K, candidates: int = 100):
        if not retrievers:
            raise UserError("RankFusion needs at least one retriever.")
        self._retrievers, self._k, self._candidates = list(retrievers), k, candidates

    @property
    def fingerprint(self) -> str:
        """Identifies the fused retrievers and the constants."""
        return f"rrf{self._k}/{self._candidates}(" + ",".join(part.fingerprint for part in self._retrievers) + ")"

    def __call__(self, query: str, k: int) -> list[Passage]:
        """Return at most `k` passages, best first, with fused scores."""
        return self.many([query], k)[0]

    def many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the same as one call per query, in the order of `queries`."""
        depth = max(k, self._candidates)
        rankings = [part.many(queries, depth) for part in self._retrievers]
        return [self._fuse([ranking[place] for ranking in rankings], k) for place in range(len(queries))]

    def prefetch(self, queries: Sequence[str], stop: Callable[[], bool] = never) -> None:
        """Encode `queries` ahead for the fused retrievers that can; see `Prefetching`."""
        for part in self._retrievers:
            if isinstance(part, Prefetching):
                part.prefetch(queries, stop)

    def _fuse(self, rankings: list[list[Passage]], k: int) -> list[Passage]:
        by_id = {passage.id: passage for ranking in rankings for passage in ranking}
        fused = reciprocal_rank_fusion([[passage.id for passage in ranking] for ranking in rankings], self._k)
        return [by_id[name].model_copy(update={"score": score}) for name, score in fused[:k]]

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self
