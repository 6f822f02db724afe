"""Questions with the sentences that they are offered, the labels of these, and what a choice of them finds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpora.retrievers.rerank import OWN, open_reranker
from corpora.retrievers.sentence_features import CONTEXTS, FIRST, SECOND, SentencePool, first_features, pool_of
from corpora.retrievers.sentence_features import second_features as _second
from corpora.retrievers.sentences import DEPTH, Network, choose
from experiments.analysis.statistics import mean_of, paired
from experiments.papers.command import rounded
from experiments.papers.sentences.sets import LabelledSet, gold_sentences, parts_of
from optimizers.listwise import Listing, fit_scorer
from signatures.types import Similarity

_OF = "the choice of sentences"
Weights = dict[str, Any]


@dataclass(frozen=True)
class Offered:
    """One question and the sentences of its first passages.

    Args:
        group: Data set.
        id: Of the question.
        query: The question.
        pool: The sentences that are seen at use.
        rows: Features of the first round, shape (n, len(FIRST)).
        between: Similarity of the sentences with each other, shape (n, n).
        gold: For each gold sentence the numbers of the sentences that hold it; None if its passage is not among them.
        labels: 1 for gold, 0 for a distractor, None for what training leaves out.
    """

    group: str
    id: str
    query: str
    pool: SentencePool
    rows: NDArray[np.float64]
    between: NDArray[np.float32]
    gold: Sequence[frozenset[int] | None]
    labels: Sequence[int | None]


def offered(of: LabelledSet, similarity: Similarity) -> list[Offered]:
    """Return all questions of a set with the sentences of the first ten passages, reranked by `own`."""
    retrieve = open_reranker(of.retrieve, OWN)
    rankings = retrieve.many([question.question for question in of.questions], DEPTH)
    needed: dict[str, bool] = {}
    found = []
    for question, ranking in zip(of.questions, rankings, strict=True):
        pool = pool_of(ranking)
        numbers = {at: number for number, at in enumerate(pool.places)}
        places = {passage.id: place for place, passage in enumerate(ranking)}
        gold: list[frozenset[int] | None] = []
        for name, text in gold_sentences(question, of.corpus):
            place = places.get(name)
            parts = [] if place is None else parts_of(text, pool.sentences[place], ranking[place].text)
            gold.append(frozenset(numbers[(places[name], part)] for part in parts) if parts else None)
        all_gold = frozenset().union(*(each for each in gold if each is not None))
        for passage in ranking:
            if passage.id not in needed:
                needed[passage.id] = passage.id in of.evaluation.gold_ids or of.evaluation.needs(passage.text)
        labels = [
            None if needed[ranking[place].id] else int(number in all_gold)
            for number, (place, _) in enumerate(pool.places)
        ]
        cosines = np.asarray(similarity([question.question, *pool.titled], pool.titled), dtype=np.float32)
        rows = first_features(question.question, pool, cosines[0].astype(np.float64))
        found.append(Offered(of.name, question.id, question.question, pool, rows, cosines[1:], gold, labels))
    return found


def fit(items: Sequence[Offered], *, units: int, steps: int, seed: int) -> list[Weights]:
    """Return the weights of both rounds; the second is fitted on what the first makes of the questions."""
    first = fit_scorer(
        [Listing(each.rows, each.labels, each.group) for each in items], units=units, steps=steps, seed=seed
    )
    network = Network(first, FIRST, _OF)
    second = [Listing(second_rows(each, network), each.labels, each.group) for each in items]
    return [first, fit_scorer(second, units=units, steps=steps, seed=seed)]


def second_rows(item: Offered, first: Network) -> NDArray[np.float64]:
    """Return the features of the second round, shape (n, len(SECOND))."""
    scores = first.of_features(item.rows)
    best = np.argsort(-scores, kind="stable")[:CONTEXTS].tolist()
    return _second(item.query, item.pool, item.rows, scores, best, item.between[best])


Score = Callable[[Offered], NDArray[np.float64]]


def by_weights(rounds: Sequence[Weights]) -> Score:
    """Return what scores by fitted weights."""
    first, second = Network(rounds[0], FIRST, _OF), Network(rounds[1], SECOND, _OF)
    return lambda item: second.of_features(second_rows(item, first))


def by_cosine(item: Offered) -> NDArray[np.float64]:
    """Score sentences by their similarity with the question alone."""
    return item.rows[:, FIRST.index("cosine")]


def by_passage(item: Offered) -> NDArray[np.float64]:
    """Score the sentences of earlier passages higher, so that whole passages are read."""
    return -np.arange(len(item.pool.places), dtype=np.float64)


MEASURES = ("recall", "all_found", "words", "passages")


def values(items: Sequence[Offered], score: Score, count: int, k: int) -> dict[str, list[float]]:
    """Return `MEASURES` of each question.

    - recall, all_found: share of the gold sentences that are read as a whole, and whether all are
    - words, passages: that are read, without titles

    Args:
        items: The questions.
        score: Scores their sentences.
        count: Sentences that are read.
        k: The most passages that they are of.
    """
    found: dict[str, list[float]] = {name: [] for name in MEASURES}
    for item in items:
        chosen = choose(item.pool, score(item), count, k) if item.pool.places else []
        numbers = {at: number for number, at in enumerate(item.pool.places)}
        read = {numbers[(each.passage, within)] for each in chosen for within in each.sentences}
        hits = [parts is not None and parts <= read for parts in item.gold]
        texts = [item.pool.sentences[each.passage][within] for each in chosen for within in each.sentences]
        found["recall"].append(sum(hits) / len(hits))
        found["all_found"].append(float(all(hits)))
        found["words"].append(float(sum(len(text.split()) for text in texts)))
        found["passages"].append(float(len(chosen)))
    return found


def summary(of: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Return the mean of each measure, with the 95 % interval of the shares."""
    shares = {name: mean_of(list(of[name])).as_dict() for name in ("recall", "all_found")}
    short = {name: {key: rounded(each[key]) for key in ("mean", "low", "high")} for name, each in shares.items()}
    return {**short, **{name: round(float(np.mean(of[name])), 1) for name in ("words", "passages")}}


def difference(old: Mapping[str, Sequence[float]], new: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Return the paired difference of both shares, new minus old."""
    return {
        name: {
            key: rounded(value)
            for key, value in paired(list(old[name]), list(new[name])).as_dict().items()
            if key in ("difference", "low", "high")
        }
        for name in ("recall", "all_found")
    }
