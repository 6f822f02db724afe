"""Features of the sentences of retrieved passages beside each other: vectors, words, titles, places, links.

The second sentence of a chain often shares few words with the question, but continues an entity that the first one
names. So there are two rounds: the features of the second one compare each sentence with the best of the first.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from corpora.retrievers.rerank_features import (
    LINKING,
    SHORTEST_TITLE,
    ReadText,
    read_text,
    relative_scores,
    share,
    stems_of,
    words_of,
)
from signatures.text import split_sentences
from signatures.types import Passage

VERSION = 1  # of the features; part of fingerprints
CONTEXTS = 3  # best sentences of the first round with which all are compared
FIRST = (
    "cosine",
    "cosine_below_best",
    "cosine_rank",
    "cosine_below_passage",
    "words_weighted",
    "words_of_question",
    "words_with_title",
    "names_of_question",
    "title_of_question",
    "question_has_title",
    "question_of_title",
    "passage_score",
    "passage_rank",
    "passage_first_three",
    "first",
    "place",
    "length",
    "names_titles",
    "title_is_named",
    "number",
    "number_asked",
    "compares_title",
    "compares_first",
)
SECOND = (
    *FIRST,
    "score",
    "score_below_best",
    "score_rank",
    "score_below_passage",
    "better_in_passage",
    "near_1",
    "near_2",
    "near_3",
    "near_any",
    "passage_of_1",
    "passage_of_any",
    "title_in_1",
    "title_in_any",
    "names_title_of_any",
    "words_of_any",
    "new_words_of_question",
)

_ASKS_NUMBER = re.compile(
    r"\b(when|year|date|born|died|old|older|oldest|young|younger|youngest|first|earlier|later|before|after|many|much|"
    r"long|longer|far|population|tall|high|number)\b",
    re.IGNORECASE,
)
_COMPARES = re.compile(
    r"\b(or|both|same|more|than|which (one|film|of)|older|younger|earlier|later|between)\b|"
    r"^(are|is|was|were|do|does|did|have|has)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class SentencePool:
    """All sentences of the passages that were retrieved for a query.

    Args:
        ranked: The passages, best first.
        sentences: Those of each passage, in order, none blank.
    """

    ranked: Sequence[Passage]
    sentences: Sequence[Sequence[str]]

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """Place of the passage and place in it, of each sentence; their order is that of all features."""
        return [(place, number) for place, texts in enumerate(self.sentences) for number in range(len(texts))]

    @cached_property
    def titled(self) -> list[str]:
        """Each sentence after the title of its passage, as it is embedded: a pronoun alone says little."""
        return [
            f"{passage.title}: {text}".removeprefix(": ")
            for passage, texts in zip(self.ranked, self.sentences, strict=True)
            for text in texts
        ]

    @cached_property
    def read(self) -> list[ReadText]:
        """The words of each sentence with its title."""
        return [
            read_text(passage.title, text)
            for passage, texts in zip(self.ranked, self.sentences, strict=True)
            for text in texts
        ]

    @cached_property
    def stems(self) -> list[frozenset[str]]:
        """The stems of each sentence alone."""
        return [stems_of(words_of(text)) for texts in self.sentences for text in texts]

    @cached_property
    def weights(self) -> dict[str, float]:
        """The stems of all sentences, rare ones weighing more: log(1 + sentences / sentences with it)."""
        counts = Counter(stem for stems in self.stems for stem in stems)
        return {stem: math.log(1 + len(self.stems) / count) for stem, count in counts.items()}

    @cached_property
    def passage_of(self) -> NDArray[np.int64]:
        """Place of the passage of each sentence."""
        return np.array([place for place, _ in self.places], dtype=np.int64)


def pool_of(passages: Sequence[Passage]) -> SentencePool:
    """Return the sentences of passages: those that a passage names, if they are its text, else by `split_sentences`."""
    return SentencePool(passages, [_sentences(passage) for passage in passages])


def _sentences(passage: Passage) -> list[str]:
    given = getattr(passage, "sentences", None)
    if isinstance(given, list | tuple) and all(isinstance(each, str) for each in given):
        stripped = [text for each in given if (text := each.strip())]
        if "".join("".join(stripped).split()) == "".join(passage.text.split()):
            return stripped
    return split_sentences(passage.text)


def first_features(query: str, pool: SentencePool, cosines: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return one row per sentence, in the order of `FIRST`; all values are in [-1, 2].

    - cosine, _below_best, _rank, _below_passage: similarity with the question, its difference from the highest of all
      and of the passage, and 1 / rank
    - words_weighted: BM25 of the question's content words (stems) among these sentences, relative to the highest
    - words_of_question, words_with_title: share of these words in the sentence, and in title and sentence
    - names_of_question: the same of the question's names and numbers
    - title_of_question, question_has_title, question_of_title: share of the question's words in the title, whether the
      whole title occurs in the question, and share of the title's words that do
    - passage_score, passage_rank, passage_first_three: relative score of the passage, 1 / rank, among the first three
    - first, place, length: first of the passage, 1 / place, words divided by 40, at most 2
    - names_titles, title_is_named: titles of other passages in the sentence, at most three, divided by three; and
      whether the passage's title, if not in the question, occurs in a sentence of another of the first five
    - number, number_asked: it contains a digit; and the question asks for a number or a time
    - compares_title, compares_first: for a question that compares, `question_has_title` and `first`

    Args:
        query: The question.
        pool: Its sentences.
        cosines: Similarity of each with the question, shape (n,).
    """
    if not pool.places:
        return np.zeros((0, len(FIRST)))
    near = np.column_stack([cosines, cosines - cosines.max(), _ranks(cosines), cosines - _best_of(pool, cosines)])
    return np.hstack([near, np.array(list(_first_rows(query, pool)), dtype=np.float64)])


def _first_rows(query: str, pool: SentencePool) -> Iterator[list[float]]:
    asked = words_of(query)
    question, stems, names = f" {' '.join(asked)} ", stems_of(asked), _names(query)
    compares, asks_number = bool(_COMPARES.search(query)), bool(_ASKS_NUMBER.search(query))
    weighted = _weighted(stems, pool)
    relative = relative_scores(pool.ranked)
    titles = [read_text(passage.title, "").title for passage in pool.ranked]
    padded = [f" {title} " if len(title) >= SHORTEST_TITLE else None for title in titles]
    asked_for = [bool(title) and f" {title} " in question for title in titles]
    is_named = [not known and _is_named(title, pool) for title, known in zip(titles, asked_for, strict=True)]
    for number, (place, within) in enumerate(pool.places):
        own, alone = pool.read[number], pool.stems[number]
        in_question = asked_for[place]
        named = sum(other is not None and other != padded[place] and other in own.text for other in padded)
        digit = any(letter.isdigit() for word in alone for letter in word)
        yield [
            weighted[number],
            share(len(stems & alone), len(stems)),
            share(len(stems & own.stems), len(stems)),
            share(len(names & own.stems), len(names)),
            share(len(stems & own.title_stems), len(stems)),
            float(in_question),
            share(len(stems & own.title_stems), len(own.title_stems)),
            relative[place],
            1 / (1 + place),
            float(place < CONTEXTS),
            float(within == 0),
            1 / (1 + within),
            min(own.length, 80) / 40,
            min(named, 3) / 3,
            float(is_named[place]),
            float(digit),
            float(digit and asks_number),
            float(compares and in_question),
            float(compares and within == 0),
        ]


def _is_named(title: str, pool: SentencePool) -> bool:
    """Return whether a title occurs in a sentence of another of the first passages."""
    return len(title) >= SHORTEST_TITLE and any(
        own.title != title and f" {title} " in own.text
        for (place, _), own in zip(pool.places, pool.read, strict=True)
        if place < LINKING
    )


def second_features(
    query: str,
    pool: SentencePool,
    rows: NDArray[np.float64],
    scores: NDArray[np.float64],
    best: Sequence[int],
    near: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return one row per sentence, in the order of `SECOND`: `rows`, and how each stands to the best sentences.

    - score, _below_best, _rank, _below_passage: of the first round, as `cosine` and what follows it
    - better_in_passage: sentences of its passage with a higher score, at most three, divided by three
    - near_1, _2, _3, _any: similarity with the best, second, third, and the highest of these; 0 with itself
    - passage_of_1, _any: another sentence of its passage is the best, or one of the best
    - title_in_1, _any: its title, if not in the question, occurs in the best of other passages, or any of them
    - names_title_of_any: it contains the title of the passage of one of them
    - words_of_any: weighted share of its words outside the question that occur in the best ones of other passages
    - new_words_of_question: share of the question's words that it has and the best one lacks

    Args:
        query: The question.
        pool: Its sentences.
        rows: Of the first round, shape (n, len(FIRST)).
        scores: Of the first round, shape (n,).
        best: At most `CONTEXTS` sentences with the highest scores, by number, best first.
        near: Similarity of these with all sentences, shape (len(best), n).
    """
    if not pool.places:
        return np.zeros((0, len(SECOND)))
    better = [
        min(int((scores[pool.passage_of == place] > score).sum()), 3) / 3
        for place, score in zip(pool.passage_of, scores, strict=True)
    ]
    others = np.zeros((CONTEXTS, len(scores)))
    others[: len(best)] = near
    for row, number in enumerate(best):
        others[row, number] = 0.0
    stated = [scores, scores - scores.max(), _ranks(scores), scores - _best_of(pool, scores), better]
    compared = np.column_stack([*stated, *others, others.max(axis=0)])
    linked = np.array(list(_links(query, pool, best)), dtype=np.float64)
    return np.hstack([rows, compared, linked])


def _links(query: str, pool: SentencePool, best: Sequence[int]) -> Iterator[list[float]]:
    asked = words_of(query)
    question, stems = f" {' '.join(asked)} ", stems_of(asked)
    for number, (place, _) in enumerate(pool.places):
        own, alone = pool.read[number], pool.stems[number]
        same = [pool.places[each][0] == place for each in best]
        another = [kin and each != number for kin, each in zip(same, best, strict=True)]
        linkable = len(own.title) >= SHORTEST_TITLE and f" {own.title} " not in question
        elsewhere = [pool.read[each] for kin, each in zip(same, best, strict=True) if not kin]
        inside = [linkable and f" {own.title} " in other.text for other in elsewhere]
        named = (other.title for other in elsewhere)
        words = alone - stems
        known = frozenset().union(*(other.stems for other in elsewhere)) if elsewhere else frozenset()
        whole = sum(pool.weights[word] for word in words)
        yield [
            float(another[0]) if another else 0.0,
            float(any(another)),
            float(bool(inside) and inside[0] and not same[0]),
            float(any(inside)),
            float(any(len(title) >= SHORTEST_TITLE and f" {title} " in own.text for title in named)),
            sum(pool.weights[word] for word in words & known) / whole if whole else 0.0,
            share(len((stems & own.stems) - pool.read[best[0]].stems), len(stems)) if best else 0.0,
        ]


def _names(query: str) -> frozenset[str]:
    """Return the stems of a question's names and numbers: words in capitals, but for the first, and with digits."""
    words = re.findall(r"\w+", query)
    found = [
        word
        for place, word in enumerate(words)
        if (place and word[0].isupper()) or any(letter.isdigit() for letter in word)
    ]
    return stems_of([word.lower() for word in found])


def _weighted(stems: frozenset[str], pool: SentencePool) -> NDArray[np.float64]:
    """Return the BM25 score (k1=1.2, b=0.75, each word once) of every sentence, relative to the highest."""
    mean = sum(each.length for each in pool.read) / len(pool.read)
    scores = np.array(
        [
            sum(pool.weights[stem] for stem in stems & alone) * 2.2 / (1 + 1.2 * (0.25 + 0.75 * own.length / mean))
            for own, alone in zip(pool.read, pool.stems, strict=True)
        ]
    )
    return scores / scores.max() if scores.max() > 0 else scores


def _ranks(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 / rank of each score; equal scores are in their order."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(-scores, kind="stable")] = 1 / np.arange(1, len(scores) + 1)
    return ranks


def _best_of(pool: SentencePool, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each sentence the highest score in its passage."""
    highest = np.full(len(pool.ranked), -np.inf)
    np.maximum.at(highest, pool.passage_of, scores)
    return highest[pool.passage_of]
