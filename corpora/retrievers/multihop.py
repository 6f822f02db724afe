"""Multi-hop dense retrieval: a question finds its first passages, and with each of these the passages that come next.

Xiong et al., "Answering Complex Open-Domain Questions with Multi-Hop Dense Retrieval", ICLR 2021, sections 2.2 and 2.3
(https://arxiv.org/abs/2009.12756). No LM is asked.

Departures: words count as well. The first hop is the hybrid's; the next hops fuse the cosines with BM25 of the text of
the passage they leave, which finds what it names. Only queries are encoded with the trained adapter, so that any index
by the default embedder serves. A path's score is the product of the probabilities of its hops (softmax over the best
passages, shares of starts flattened), and a passage has the sum over all paths that reach it, the empty one included:
passages are ranked, not chains.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from corpora.encoders.low_rank import LowRank
from corpora.encoders.query_vectors import QueryVectors, never
from corpora.retrievers.dense import passage_text
from corpora.retrievers.embedder import Embedder
from corpora.retrievers.engine import Ranking, Scores, best
from corpora.retrievers.hybrid import HybridEngine
from corpora.retrievers.store import PassageStore

ADAPTER = Path(__file__).with_name("multihop.safetensors")
VERSION = 1  # of the search; part of fingerprints
# Chosen on the 533 train questions that were held out of the adapter's training; recall changes by a point at most
# between half and twice these values, except that scores of the first hop must not be multiplied by 40.
FIRST, NEXT = 20.0, 30.0  # by which scores of the first hop, and of the others, are multiplied before the softmax
WEIGHT = 0.9  # share of the cosines in the scores of the next hops
BEAMS = (3,)  # passages from which each further hop starts
FOUND = 50  # passages that a hop may lead to
_SAME = 3  # first passages by words among which the one that a hop leaves is looked for
LONGEST = 900  # characters of a passage in a query; the encoder cuts at 256 tokens
HOPS = "hops"  # what the next hops are called where a ranking is explained
SEPARATOR = " [SEP] "  # as the adapter was trained
_DECIMALS = 9
_BLOCK = 512  # queries encoded and searched together; bounds memory


class MultihopEngine:
    """Ranks by paths of several hops.

    Args:
        hybrid: Of the first hop; its vectors are searched in the others.
        store: The passages by row.
        embedder: With the trained adapter.
        beams: For each further hop, the number of passages from which it starts.
    """

    name = "multihop"

    def __init__(self, hybrid: HybridEngine, store: PassageStore, embedder: Embedder, *, beams: Sequence[int] = BEAMS):
        self.hybrid, self._store, self._beams = hybrid, store, tuple(beams)
        self._encode = QueryVectors(embedder)

    def rank(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """Return one ranking per query; scores are sums of probabilities of paths, at least 0."""
        return [paths.ranking(k) for paths in self._paths(queries, k)]

    def parts(self, query: str, k: int) -> dict[str, Ranking]:
        """Return the two rankings of the first hop, and as `HOPS` that of the passages by the next hops alone."""
        (paths,) = self._paths([query], k)
        return {**self.hybrid.parts(query, max(k, FOUND)), HOPS: paths.by_hops()}

    def prefetch(self, queries: Sequence[str], stop: Callable[[], bool] = never) -> None:
        """Encode `queries` ahead for the first hop; see `Prefetching`."""
        self.hybrid.prefetch(queries, stop)

    def follow(self, asked: Sequence[tuple[str, dict[str, str]]], k: int) -> list[Ranking]:
        """Return for each query and passage (its title and text) what comes next, with fused scores in [0, 1]."""
        found: list[Ranking] = []
        for start in range(0, len(asked), _BLOCK):
            block = asked[start : start + _BLOCK]
            texts = [f"{query}{SEPARATOR}{passage_text(record)[:LONGEST]}" for query, record in block]
            found += self.hybrid.fused(self._named(block, k), self._encode(texts), k, WEIGHT)
        return found

    def _named(self, asked: Sequence[tuple[str, dict[str, str]]], k: int) -> list[Ranking]:
        """Return what the text of each passage finds by its words, without the passage itself."""
        texts = [f"{record['title']} {record['text']}" for _, record in asked]
        rankings = []
        for (_, record), ranking in zip(asked, self.hybrid.bm25.rank(texts, self.hybrid.depth(k)), strict=True):
            first = self._store.records(ranking.rows[:_SAME])
            own = [place for place, other in enumerate(first) if other == record]
            rankings.append(Ranking(np.delete(ranking.rows, own), np.delete(ranking.scores, own)))
        return rankings

    def _paths(self, queries: Sequence[str], k: int) -> list["_Paths"]:
        """Return all paths of each query, whose first hop leads to at least `k` passages."""
        paths = [_Paths(ranking) for ranking in self.hybrid.rank(queries, max(k, FOUND))]
        for beam in self._beams:
            self._hop(queries, paths, beam)
        return paths

    def _hop(self, queries: Sequence[str], paths: Sequence["_Paths"], beam: int) -> None:
        """Add to each query's paths those that continue from its best passages."""
        chosen = [path.chosen(beam) for path in paths]
        starts = [(query, row) for query, rows in zip(queries, chosen, strict=True) for row in rows]
        records = self._store.records(np.array([row for _, row in starts], dtype=np.int64))
        hops = iter(self.follow([(query, record) for (query, _), record in zip(starts, records, strict=True)], FOUND))
        for path, rows in zip(paths, chosen, strict=True):
            path.follow([(row, next(hops)) for row in rows])


class _Paths:
    """The passages that the paths of one query have reached, and the sums of their paths' probabilities."""

    def __init__(self, first: Ranking):
        # Over the same passages however many are asked for, so that fewer are the first of more.
        self._reached = dict(zip(first.rows.tolist(), _softmax(FIRST * first.scores, FOUND).tolist(), strict=True))
        self._first, self._left = dict(self._reached), set[int]()

    def chosen(self, count: int) -> list[int]:
        """Return the best passages that no path has left yet, which the next hop leaves."""
        rows = [row for row in self._order() if row not in self._left][:count]
        self._left.update(rows)
        return rows

    def follow(self, hops: Sequence[tuple[int, Ranking]]) -> None:
        """Add paths that leave a passage, each for the passages that it leads to."""
        starts = np.sqrt([self._reached[row] for row, _ in hops])  # flatter: what ranks third is right as well often
        for share, (_, ranking) in zip((starts / max(starts.sum(), 1e-12)).tolist(), hops, strict=True):
            for row, probability in zip(ranking.rows.tolist(), _softmax(NEXT * ranking.scores).tolist(), strict=True):
                self._reached[row] = self._reached.get(row, 0.0) + share * probability

    def ranking(self, k: int) -> Ranking:
        """Return the best `k`; equal scores are in corpus order."""
        return _best(self._reached, k)

    def by_hops(self) -> Ranking:
        """Return the passages that a further hop leads to, by the paths that do."""
        gained = {row: score - self._first.get(row, 0.0) for row, score in self._reached.items()}
        return _best({row: score for row, score in gained.items() if score > 0}, len(gained))

    def _order(self) -> list[int]:
        return sorted(self._reached, key=lambda row: (-self._reached[row], row))


def _best(scores: Mapping[int, float], k: int) -> Ranking:
    rows = np.fromiter(scores, dtype=np.int64, count=len(scores))
    sums: Scores = np.fromiter(scores.values(), dtype=np.float64, count=len(scores))
    return best(rows, np.asarray(np.round(sums, _DECIMALS), dtype=np.float64), k)


def _softmax(scores: Scores, most: int | None = None) -> Scores:
    """Return the softmax over the first `most` scores, by whose sum the others are divided, too."""
    raised = np.exp(scores - scores.max(initial=-np.inf)) if len(scores) else scores
    return np.asarray(raised / max(raised[:most].sum(), 1e-12), dtype=np.float64)


def adapter() -> LowRank:
    """Return the shipped adapter.

    Raises:
        UserError: It is missing or damaged.
    """
    return LowRank(ADAPTER)
