"""Multi-hop dense retrieval: a question finds its first passages, and with each of these the passages that come next.

Xiong et al., "Answering Complex Open-Domain Questions with Multi-Hop Dense Retrieval", ICLR 2021, sections 2.2 and 2.3
(https://arxiv.org/abs/2009.12756). No LM is asked.

Departures: the first hop is the hybrid's, so that words count as they do there; the next hops are dense alone. Only
queries are encoded with the trained adapter, so that any index by the default embedder serves. A path's score is the
product of the probabilities of its hops (softmax over the best passages), and a passage has the sum over all paths that
reach it, the empty one included: it ranks passages, not chains.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpora.encoders.low_rank import LowRank
from corpora.encoders.query_vectors import QueryVectors, never
from corpora.retrievers.dense import passage_text
from corpora.retrievers.embedder import Embedder
from corpora.retrievers.engine import Ranking, Scores, best
from corpora.retrievers.hybrid import HybridEngine
from corpora.retrievers.store import PassageStore

ADAPTER = Path(__file__).with_name("multihop.safetensors")
VERSION = 1  # of the search; part of fingerprints
FIRST, NEXT = 40.0, 25.0  # by which scores of the hybrid, and cosines, are multiplied before the softmax
BEAMS = (4,)  # passages from which each further hop starts
FOUND = 50  # passages that a hop may lead to
LONGEST = 900  # characters of a passage in a query; the encoder cuts at 256 tokens
SEPARATOR = " [SEP] "  # as the adapter was trained
_DECIMALS = 9


class MultihopEngine:
    """Ranks by paths of several hops.

    Args:
        hybrid: Of the first hop; its vectors are searched in the others.
        store: The passages by row.
        embedder: With the trained adapter.
        beams: For each further hop, the number of passages from which it starts.
    """

    name = "multihop"

    def __init__(
        self, hybrid: HybridEngine, store: PassageStore, embedder: Embedder, *, beams: Sequence[int] = BEAMS
    ):
        self._hybrid, self._store, self._beams = hybrid, store, tuple(beams)
        self._encode = QueryVectors(embedder)

    def rank(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """Return one ranking per query; scores are sums of probabilities of paths, at least 0."""
        depth = max(k, FOUND)
        paths = [_Paths(ranking) for ranking in self._hybrid.rank(queries, depth)]
        for beam in self._beams:
            chosen = [path.chosen(beam) for path in paths]
            self._hop(queries, paths, chosen)
        return [path.ranking(k) for path in paths]

    def parts(self, query: str, k: int) -> dict[str, Ranking]:
        """Return the rankings of the first hop; see `HybridEngine.parts`."""
        return self._hybrid.parts(query, max(k, FOUND))

    def prefetch(self, queries: Sequence[str], stop: Callable[[], bool] = never) -> None:
        """Encode `queries` ahead for the first hop; see `Prefetching`."""
        self._hybrid.prefetch(queries, stop)

    def _hop(
        self, queries: Sequence[str], paths: Sequence["_Paths"], chosen: Sequence[NDArray[np.int64]]
    ) -> None:
        """Add to each query's paths those that go on from the chosen passages."""
        rows = np.concatenate(chosen) if chosen else np.empty(0, dtype=np.int64)
        if not len(rows):
            return
        owners = np.repeat(np.arange(len(queries)), [len(each) for each in chosen])
        texts = [passage_text(record)[:LONGEST] for record in self._store.records(rows)]
        asked = [f"{queries[owner]}{SEPARATOR}{text}" for owner, text in zip(owners.tolist(), texts, strict=True)]
        dense, vectors = self._hybrid.dense, self._encode(asked)
        found: list[list[tuple[int, Ranking]]] = [[] for _ in queries]
        nearest = dense.candidates(vectors, FOUND)
        for owner, row, vector, near in zip(owners.tolist(), rows.tolist(), vectors, nearest, strict=True):
            found[owner].append((row, best(near, dense.scores(vector, near), FOUND)))
        for path, hops in zip(paths, found, strict=True):
            path.follow(hops)


class _Paths:
    """The passages that the paths of one query have reached, and the sums of their paths' probabilities."""

    def __init__(self, first: Ranking):
        self._reached = dict(zip(first.rows.tolist(), _softmax(FIRST * first.scores).tolist(), strict=True))
        self._left: set[int] = set()

    def chosen(self, count: int) -> NDArray[np.int64]:
        """Return the best passages that no path has left yet, which the next hop leaves."""
        rows = [row for row in self._order() if row not in self._left][:count]
        self._left.update(rows)
        return np.asarray(rows, dtype=np.int64)

    def follow(self, hops: Sequence[tuple[int, Ranking]]) -> None:
        """Add paths that leave a passage, each for the passages that it leads to."""
        starts = np.array([self._reached[row] for row, _ in hops])
        for share, (_, ranking) in zip((starts / max(starts.sum(), 1e-12)).tolist(), hops, strict=True):
            for row, probability in zip(ranking.rows.tolist(), _softmax(NEXT * ranking.scores).tolist(), strict=True):
                self._reached[row] = self._reached.get(row, 0.0) + share * probability

    def ranking(self, k: int) -> Ranking:
        """Return the best `k`; equal scores are in corpus order."""
        rows = np.fromiter(self._reached, dtype=np.int64, count=len(self._reached))
        return best(rows, np.round(np.fromiter(self._reached.values(), np.float64, len(rows)), _DECIMALS), k)

    def _order(self) -> list[int]:
        return sorted(self._reached, key=lambda row: (-self._reached[row], row))


def _softmax(scores: Scores) -> Scores:
    raised = np.exp(scores - scores.max(initial=-np.inf)) if len(scores) else scores
    return np.asarray(raised / raised.sum() if len(scores) else scores, dtype=np.float64)


def adapter() -> LowRank:
    """Return the shipped adapter.

    Raises:
        UserError: It is missing or damaged.
    """
    return LowRank(ADAPTER)
