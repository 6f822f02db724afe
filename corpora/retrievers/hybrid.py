"""Fusion of BM25 and dense rankings by their scores."""

from collections.abc import Callable, Sequence

import numpy as np

from corpora.encoders.query_vectors import never
from corpora.retrievers.bm25 import Bm25Engine
from corpora.retrievers.dense import DenseEngine
from corpora.retrievers.embedder import Vectors
from corpora.retrievers.engine import Ranking, Scores, best


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
        by_words = self.bm25.rank(queries, self.depth(k))
        rankings: list[Ranking] = []
        for vectors in self.dense.encode(queries):
            rankings += self.fused(by_words[len(rankings) :][: len(vectors)], vectors, k, self._weight)
        return rankings

    def depth(self, k: int) -> int:
        """Return how many passages are taken from each of the two rankings for the best `k`."""
        return max(k, self._candidates)

    def fused(self, by_words: Sequence[Ranking], vectors: Vectors, k: int, weight: float) -> list[Ranking]:
        """Return for each ranking of BM25 and query vector the best `k` by fused scores.

        Args:
            by_words: Of `depth(k)` passages each.
            vectors: Shape (len(by_words), d).
            k: Passages of each result.
            weight: Share of the dense score, in [0, 1].
        """
        depth, found = self.depth(k), []
        nearest = self.dense.candidates(vectors, depth)
        for words, vector, rows in zip(by_words, vectors, nearest, strict=True):
            near = best(rows, self.dense.scores(vector, rows), depth)
            found.append(self._fuse(words, near, vector, k, weight))
        return found

    def parts(self, query: str, k: int) -> dict[str, Ranking]:
        """Return the two rankings that are fused for the best `k`, by the names of their engines."""
        depth = self.depth(k)
        return {engine.name: engine.rank([query], depth)[0] for engine in (self.bm25, self.dense)}

    def prefetch(self, queries: Sequence[str], stop: Callable[[], bool] = never) -> None:
        """Encode `queries` ahead; see `Prefetching`."""
        self.dense.prefetch(queries, stop)

    def _fuse(self, words: Ranking, near: Ranking, vector: np.ndarray, k: int, weight: float) -> Ranking:
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
        return best(rows, np.round(fuse_scores(bm25, cosines, weight), 6), k)
