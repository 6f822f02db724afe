"""Sentences instead of passages: of the first passages of a retriever, the sentences that a question needs.

The sentences of the first ten passages are scored together (`sentence_features`) in two rounds: for themselves, and
beside the best of the first round. The best N stay, each with the title of its passage.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corpora.retrievers.engine import check_k
from corpora.retrievers.explain import Explained, explain
from corpora.retrievers.network import Network, read_rounds
from corpora.retrievers.over import Over
from corpora.retrievers.sentence_features import (
    CONTEXTS,
    FIRST,
    SECOND,
    VERSION,
    SentencePool,
    first_features,
    pool_of,
    second_features,
)
from signatures.common.specs import Range
from signatures.text import is_chinese
from signatures.types import Passage, Retriever, Similarity

WEIGHTS = Path(__file__).with_name("sentence_weights.json")
DEPTH = 10  # passages whose sentences are scored
MOST = 100  # sentences that may be asked for
_OF = "the choice of sentences"


class SentenceScorer:
    """Scores the sentences of a pool for a query. Safe under threads.

    Args:
        first: Weights over `FIRST`.
        second: Weights over `SECOND`.
        similarity: Of the embedder that they were fitted with.

    Raises:
        UserError: Weights are incomplete.
    """

    def __init__(self, first: Network, second: Network, similarity: Similarity):
        self.similarity = similarity
        self._first, self._second = first, second

    @property
    def fingerprint(self) -> str:
        """Return version of the features, hash of the weights, and the embedder."""
        return f"{VERSION}:{self._first.digest[:8]}{self._second.digest[:8]}+{self.similarity.fingerprint}"

    def __call__(self, query: str, pool: SentencePool) -> NDArray[np.float64]:
        """Return a score in [0, 1] for each sentence, in the order of `pool.places`."""
        return self._second.of_features(self.rows(query, pool))

    def rows(self, query: str, pool: SentencePool) -> NDArray[np.float64]:
        """Return the features of the second round, shape (n, len(SECOND))."""
        rows = first_rows(query, pool, self.similarity)
        return second_rows(query, pool, rows, self._first.of_features(rows), self.similarity)


def first_rows(query: str, pool: SentencePool, similarity: Similarity) -> NDArray[np.float64]:
    """Return the features of the first round, shape (n, len(FIRST))."""
    cosines = np.asarray(similarity([query], pool.titled), dtype=np.float64).reshape(-1)
    return first_features(query, pool, cosines)


def second_rows(
    query: str, pool: SentencePool, rows: NDArray[np.float64], scores: NDArray[np.float64], similarity: Similarity
) -> NDArray[np.float64]:
    """Return the features of the second round, given features and scores of the first one."""
    best = np.argsort(-scores, kind="stable")[:CONTEXTS].tolist()
    near = np.asarray(similarity([pool.titled[number] for number in best], pool.titled), dtype=np.float64)
    return second_features(query, pool, rows, scores, best, near)


class Chosen(NamedTuple):
    """What is read of one passage.

    Args:
        passage: Its place among those retrieved.
        sentences: The places of the chosen sentences in it, in order.
        score: Of the best one.
    """

    passage: int
    sentences: tuple[int, ...]
    score: float


def choose(pool: SentencePool, scores: NDArray[np.float64], count: int, most_passages: int) -> list[Chosen]:
    """Return the best `count` sentences of at most `most_passages` passages, by passage, that of the best one first.

    A sentence of a further passage is passed over, so that the next best ones of the passages that are read follow; so
    is one whose words are chosen already.
    """
    said: set[str] = set()
    found: dict[int, list[int]] = {}
    best: dict[int, float] = {}
    left = count
    for number in np.argsort(-scores, kind="stable").tolist():
        place, within = pool.places[number]
        if place not in found and len(found) == most_passages:
            continue
        if not left:
            break
        words = " ".join(pool.sentences[place][within].split())
        if words in said:
            continue
        said.add(words)
        found.setdefault(place, []).append(within)
        best.setdefault(place, float(scores[number]))
        left -= 1
    return [Chosen(place, tuple(sorted(numbers)), best[place]) for place, numbers in found.items()]


class SentenceRetriever(Over):
    """A `Retriever` that returns the first passages of another one, cut to the sentences that a query needs.

    Args:
        retriever: Retrieves the passages.
        scorer: Scores their sentences.
        sentences: How many are kept for a query, of all passages together; 1 to `MOST`.
        depth: Passages whose sentences are scored, or `k` if that is more; at least 1.

    Raises:
        UserError: `sentences` or `depth` is outside its range.
    """

    def __init__(self, retriever: Retriever, scorer: SentenceScorer, sentences: int, *, depth: int = DEPTH):
        Range(1, MOST).check("sentences", sentences, whole=True)
        Range(1).check("depth", depth, whole=True)
        super().__init__(retriever)
        self.sentences = sentences
        self._scorer, self._depth = scorer, depth

    @property
    def name(self) -> str | None:
        """By which the reranker below is opened again; None without one."""
        found: str | None = getattr(self.retriever, "name", None)
        return found

    @property
    def fingerprint(self) -> str:
        """Identifies the retriever below, the scorer and both numbers."""
        return f"sentences{self.sentences}/{self._depth}[{self._scorer.fingerprint}]({self.retriever.fingerprint})"

    def load(self) -> None:
        """Load the models, which the first query would do."""
        for part in (self.retriever, self._scorer.similarity):
            if callable(load := getattr(part, "load", None)):
                load()

    def many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return for each query at most `k` passages with their chosen sentences alone, in their order in the text.

        The passage with the best sentence is first; its score is that sentence's. Ids and titles are those of the
        passages; one without a chosen sentence is not returned.

        Raises:
            UserError: `k` is below 1.
        """
        check_k(k)
        retrieved = self.retriever.many(queries, max(k, self._depth))
        return [
            [passage for _, passage in self._cut(query, found, k)]
            for query, found in zip(queries, retrieved, strict=True)
        ]

    def explain(self, query: str, k: int) -> list[Explained]:
        """Return what a call returns; the places are those of the whole passages.

        Raises:
            UserError: `k` is below 1.
        """
        check_k(k)
        found = explain(self.retriever, query, max(k, self._depth))
        cut = self._cut(query, [each.passage for each in found], k)
        return [Explained(passage, found[place].places) for place, passage in cut]

    def _cut(self, query: str, found: Sequence[Passage], k: int) -> list[tuple[int, Passage]]:
        """Return the chosen passages, each after its place among those found."""
        pool = pool_of(found)
        if not pool.places:
            return list(enumerate(found[:k]))
        chosen = choose(pool, self._scorer(query, pool), self.sentences, k)
        return [(each.passage, cut_to(found[each.passage], pool.sentences[each.passage], each)) for each in chosen]


def cut_to(passage: Passage, sentences: Sequence[str], chosen: Chosen) -> Passage:
    """Return a passage with the chosen sentences as its text, and the score of the best one.

    Its `sentences` are all of the passage's, chosen or not: supporting facts are counted in them.
    """
    text = ("" if is_chinese(passage.text) else " ").join(sentences[number] for number in chosen.sentences)
    return passage.model_copy(update={"text": text, "score": chosen.score, "sentences": list(sentences)})


def own_scorer(similarity: Similarity, path: Path = WEIGHTS) -> SentenceScorer:
    """Return the fitted scorer.

    Args:
        similarity: By the default embedder.
        path: Of the weights.

    Raises:
        UserError: The file is missing, or its weights are incomplete.
    """
    first, second = read_rounds(path, {"first": list(FIRST), "second": list(SECOND)}, _OF)
    return SentenceScorer(Network(first, FIRST, _OF), Network(second, SECOND, _OF), similarity)


def open_sentences(retriever: Retriever, sentences: int | None) -> Retriever:
    """Return the retriever with a choice of sentences in front, or the retriever itself for None and 0.

    Raises:
        UserError: `sentences` is outside its range, or the weights are missing or damaged.
    """
    if not sentences:
        return retriever
    from corpora.retrievers.embedder import Embedder, EmbedderSimilarity

    return SentenceRetriever(retriever, own_scorer(EmbedderSimilarity(Embedder())), sentences)
