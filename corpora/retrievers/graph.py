"""Personalised PageRank over a graph of passages and the phrases that they name: entities, or the ends of triples.

Without an LM: entities by rule (`entities.py`), each linked to the passages that name it, as in LinearRAG (Zhuang et
al. 2025, https://arxiv.org/abs/2510.10114) and SPRIG (Wang 2025, https://arxiv.org/abs/2602.23372). With triples of an
LM: HippoRAG 2 (Gutierrez et al., ICML 2025, https://arxiv.org/abs/2502.14802): the triples nearest to the question lead
to phrases, from which the walk starts; passages start it, too, with a small weight.

Departures: passages that start the walk are the best of the hybrid or of `multihop`, not all by their cosines, so that
a walk touches a small part of a large graph. The passage whose title an entity is counts more for it than those that
name it. The entities of a question are those of the graph that occur in it, not the nearest by vectors. LinearRAG's
sentences are left out, whose vectors would cost as much as those of the passages. HippoRAG 2's phrases lead to each
other once for each triple, not once in each direction.
"""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from corpora.encoders.query_vectors import never
from corpora.retrievers.arrays import read_npy, write_npy
from corpora.retrievers.engine import Ranking, Rows, Scores, best
from corpora.retrievers.entities import keys_of
from corpora.retrievers.hybrid import HybridEngine
from corpora.retrievers.multihop import MultihopEngine
from corpora.retrievers.triples import Facts, Triple
from signatures.common.errors import UserError

VERSION = 1  # of graph and walk; part of fingerprints
STARTS_FILE, TARGETS_FILE, SHARES_FILE, KEYS_FILE = "starts.npy", "targets.npy", "shares.npy", "keys.npy"
GRAPH, GRAPH_MULTIHOP = "graph", "graph-multihop"
FILES = (STARTS_FILE, TARGETS_FILE, SHARES_FILE, KEYS_FILE)
DAMPING = 0.5  # of the papers: share of the walk that goes on
ROUNDS = 12  # after which less than .03 % of the walk is left
_LEAST = 1e-7  # of the walk on an edge; what is less goes no further, so that hubs do not cost time
# Chosen on the train questions that were held out of the multi-hop retriever's training.
STARTS = 30  # passages of the first engine that start the walk
STEEP = {"hybrid": 3.0, "multihop": 1.0}  # power of their scores, from 0 of the last to 1 of the first
ENTITIES = 0.1  # weight of a question's entity that one passage names, where all passages together have 1
# HippoRAG 2's, where the passages have their scores times `PASSAGES`.
PASSAGES = 0.05
PHRASES = 5  # that start the walk at most

Filter = Callable[[str, Sequence[Triple]], Sequence[int]]
"""Returns the places of those triples that help with a question."""


class Edges(NamedTuple):
    """Edges of a graph, each once: two nodes, and a weight for each direction; all of the same length."""

    left: Rows
    right: Rows
    there: Scores
    back: Scores


class Graph:
    """A walk over the files of a graph, which are mapped. Nodes are the passages by row, then the phrases.

    Raises:
        UserError: A file is damaged.
    """

    def __init__(self, folder: Path, passages: int):
        self.passages = passages
        self._keys = read_npy(folder / KEYS_FILE, np.dtype(np.uint64), columns=1)[:, 0]
        nodes = passages + len(self._keys)
        self._starts = read_npy(folder / STARTS_FILE, np.dtype(np.int64), columns=1, rows=nodes + 1)[:, 0]
        edges = int(self._starts[-1])
        self._targets = read_npy(folder / TARGETS_FILE, np.dtype(np.int32), columns=1, rows=edges)[:, 0]
        self._shares = read_npy(folder / SHARES_FILE, np.dtype(np.float32), columns=1, rows=edges)[:, 0]
        self._degrees, targets = np.diff(self._starts), self._targets
        if self._starts[0] or (self._degrees < 0).any() or targets.min() < 0 or targets.max() >= nodes:
            raise UserError(f"{folder} is damaged (an edge leads nowhere): rebuild the index with overwrite.")

    def __len__(self) -> int:
        return len(self._starts) - 1

    def nodes_of(self, keys: Sequence[int]) -> Rows:
        """Return the nodes of those phrases, given by their hashes, that the graph has, in order."""
        wanted = np.array(keys, dtype=np.uint64)
        places = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return self.passages + places[self._keys[places] == wanted].astype(np.int64)

    def has(self, key: int) -> bool:
        """Return whether the graph has a phrase, given by its hash."""
        return bool(len(self.nodes_of([key])))

    def named_by(self, node: int) -> int:
        """Return how many passages name a phrase."""
        targets = self._targets[self._starts[node] : self._starts[node + 1]]
        return int((targets < self.passages).sum())

    def walk(self, nodes: Rows, weights: Scores) -> Scores:
        """Return the personalised PageRank of all passages.

        Args:
            nodes: Where walks start; one may occur twice.
            weights: Of each, at least 0 and not all 0.
        """
        at_hand, reached = np.zeros(len(self)), np.zeros(len(self))
        np.add.at(at_hand, nodes, weights / weights.sum())
        here = np.unique(nodes)
        for _ in range(ROUNDS):
            left = at_hand[here]
            at_hand[here] = 0.0
            reached[here] += (1 - DAMPING) * left
            count = self._degrees[here]
            edges = np.repeat(self._starts[here] - np.cumsum(count) + count, count) + np.arange(count.sum())
            targets = self._targets[edges]
            np.add.at(at_hand, targets, np.repeat(DAMPING * left, count) * self._shares[edges])
            here = np.unique(targets[at_hand[targets] > _LEAST * self._degrees[targets]])
        return reached[: self.passages]


def write_graph(folder: Path, passages: int, keys: NDArray[np.uint64], edges: Edges) -> None:
    """Write the files of a graph.

    Args:
        folder: That exists.
        passages: Their number; they are the first nodes.
        keys: Hashes of the phrases, in ascending order.
        edges: Between these nodes.
    """
    nodes = passages + len(keys)
    source = np.concatenate([edges.left, edges.right])
    order = np.argsort(source, kind="stable")
    source = source[order]
    weight = np.concatenate([edges.there, edges.back])[order]
    target = np.concatenate([edges.right, edges.left])[order].astype(np.int32)
    shares = (weight / np.bincount(source, weight, minlength=nodes)[source]).astype(np.float32)
    starts = np.searchsorted(source, np.arange(nodes + 1)).astype(np.int64)
    for name, array in zip(FILES, (starts, target, shares, keys), strict=True):
        write_npy(folder / name, (len(array), 1), [array])


class GraphEngine:
    """Ranks by a walk that starts at the hybrid's passages, and at phrases of the question or of the nearest triples.

    Args:
        hybrid: Its best passages start the walk.
        graph: Over the same passages.
        facts: The triples of the graph; None for entities by rule.
    """

    name = GRAPH

    def __init__(self, hybrid: HybridEngine, graph: Graph, facts: Facts | None = None):
        self.hybrid, self.graph, self._facts = hybrid, graph, facts
        self.first: HybridEngine | MultihopEngine = hybrid
        self.keep: Filter | None = None

    def keeping(self, keep: Filter) -> Self | None:
        """Return the engine with a choice among the triples nearest to a question; None if it has no triples."""
        if self._facts is None:
            return None
        chosen = copy.copy(self)
        chosen.keep = keep
        return chosen

    def rank(self, queries: Sequence[str], k: int) -> list[Ranking]:
        """Return one ranking per query; scores are shares of the walk, in [0, 1]."""
        firsts = self.first.rank(queries, STARTS)
        return [self._walked(query, first, k) for query, first in zip(queries, firsts, strict=True)]

    def parts(self, query: str, k: int) -> dict[str, Ranking]:
        """Return the rankings of the engine whose best passages start the walk."""
        return self.first.parts(query, k)

    def prefetch(self, queries: Sequence[str], stop: Callable[[], bool] = never) -> None:
        """Encode `queries` ahead; see `Prefetching`."""
        self.first.prefetch(queries, stop)

    def _walked(self, query: str, first: Ranking, k: int) -> Ranking:
        low, high = first.scores.min(initial=1.0), first.scores.max(initial=0.0)
        near = (first.scores - low) / (high - low) if high > low else np.ones(len(first.rows))
        if self._facts is None:
            nodes, weights = self._of_question(query)
            near = near ** STEEP[self.first.name]
            near /= near.sum()
        else:
            nodes, weights = self._of_facts(query, self._facts)
            if not len(nodes):  # as in the paper
                return self.first.rank([query], k)[0]
            near = PASSAGES * near
        reached = self.graph.walk(np.concatenate([first.rows, nodes]), np.concatenate([near, weights]))
        rows = np.flatnonzero(reached)
        if len(rows) < k:  # passages that the walk does not reach are last, in corpus order
            rows = np.arange(self.graph.passages)
        return best(rows, np.round(reached[rows], 9), k)

    def _of_question(self, query: str) -> tuple[Rows, Scores]:
        nodes = self.graph.nodes_of(list(dict.fromkeys(keys_of(query, self.graph.has))))
        named = np.array([max(1, self.graph.named_by(node)) for node in nodes.tolist()], dtype=np.float64)
        return nodes, ENTITIES / named

    def _of_facts(self, query: str, facts: Facts) -> tuple[Rows, Scores]:
        """Return the phrases of the triples nearest to the question: a mean score over the passages that name each."""
        (vector,) = next(iter(self.hybrid.dense.encode([query])))
        found, scores = facts.nearest(vector)
        if self.keep is not None and len(found):
            kept = sorted({place for place in self.keep(query, facts.triples(found)) if 0 <= place < len(found)})
            found, scores = found[kept], scores[kept]
        ends = facts.ends[found].reshape(-1)
        nodes, places, counts = np.unique(ends, return_inverse=True, return_counts=True)
        means = np.bincount(places, np.repeat(scores, 2), minlength=len(nodes)) / counts
        weights = means / [max(1, self.graph.named_by(node)) for node in nodes.tolist()] if len(nodes) else means
        order = np.argsort(-weights, kind="stable")[:PHRASES]
        return nodes[order], weights[order]


class GraphMultihopEngine(GraphEngine):
    """Ranks by a walk that starts at the passages of `multihop`; continues from passages as that does.

    Args:
        multihop: Its best passages start the walk.
        graph: See `GraphEngine`.
        facts: See `GraphEngine`.
    """

    name = GRAPH_MULTIHOP

    def __init__(self, multihop: MultihopEngine, graph: Graph, facts: Facts | None = None):
        super().__init__(multihop.hybrid, graph, facts)
        self.first = self.multihop = multihop

    def follow(self, asked: Sequence[tuple[str, dict[str, str]]], k: int) -> list[Ranking]:
        """Return what `multihop` finds next."""
        return self.multihop.follow(asked, k)
