"""Features of a candidate passage beside the other candidates: words of the question, and titles that link passages.

The second passage of a multi-hop question often shares few words with it, but its title occurs in the first one.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from signatures.common.words import FUNCTION_WORDS, strip_suffix
from signatures.text import CJK
from signatures.types import Passage

VERSION = 1  # of the features; part of fingerprints
CONTEXTS = 3  # passages whose text is searched for further ones
NAMES = (
    "score",
    "rank",
    "retrieved",
    "first_three",
    "found_rank",
    "found_share",
    "found_by_first",
    "title_of_question",
    "words_of_question",
    "new_words_of_question",
    "question_has_title",
    "question_of_title",
    "linked_from_1",
    "linked_from_2",
    "linked_from_3",
    "linked_from_any",
    "links_to_others",
    "length",
)

# Each Chinese or Japanese character is a word, since these scripts have no blanks.
_WORD = re.compile(rf"[{CJK}]|[^\W{CJK}]+")
_BRACKETS = re.compile(r"\s*\([^)]*\)\s*$")
SHORTEST_TITLE = 4  # characters; shorter titles occur in any text by chance
LINKING = 5  # first passages whose mention of a title counts as a link from any
_LINKED = 10  # first passages to which a link counts


@dataclass(frozen=True)
class Pool:
    """All candidates for one query.

    Args:
        ranked: The passages that the query retrieved, best first.
        found: For each of the first passages of `ranked`, what its own text retrieved, best first; empty before that.
    """

    ranked: Sequence[Passage]
    found: Sequence[Sequence[Passage]] = ()

    @property
    def candidates(self) -> list[Passage]:
        """The distinct passages, those of `ranked` first."""
        by_id: dict[str, Passage] = {}
        for passage in (*self.ranked, *(passage for ranking in self.found for passage in ranking)):
            by_id.setdefault(passage.id, passage)
        return list(by_id.values())


@dataclass(frozen=True)
class ReadText:
    """What the features need of a passage or a sentence: its words between blanks, its title's, the stems of both."""

    text: str
    title: str
    stems: frozenset[str]
    title_stems: frozenset[str]
    length: int


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case; each Chinese or Japanese character is one."""
    return _WORD.findall(text.lower())


def stems_of(words: Sequence[str]) -> frozenset[str]:
    """Return the stems of words, without function words."""
    return frozenset(strip_suffix(word) for word in words if word not in FUNCTION_WORDS)


@lru_cache(maxsize=4096)
def read_text(title: str, text: str) -> ReadText:
    """Return what the features need of a text and its title."""
    titled, words = words_of(title), words_of(text)
    name = " ".join(words_of(_BRACKETS.sub("", title)))
    both = [*titled, *words]
    return ReadText(f" {' '.join(both)} ", name, stems_of(both), stems_of(titled), len(text.split()))


def share(part: int, whole: int) -> float:
    """Return a part of a whole, 0 of nothing."""
    return part / whole if whole else 0.0


def relative_scores(ranked: Sequence[Passage]) -> list[float]:
    """Return the scores of a ranking, scaled so that the lowest is 0 and the highest 1; 0 for those without a score."""
    scores = [passage.score for passage in ranked if passage.score is not None]
    low, high = (min(scores), max(scores)) if scores else (0.0, 0.0)
    span = high - low
    return [(p.score - low) / span if p.score is not None and span > 0 else 0.0 for p in ranked]


def pool_features(query: str, pool: Pool) -> NDArray[np.float64]:
    """Return one row per candidate of the pool, in the order of `NAMES`; all values are in [0, 2].

    - score, rank, retrieved, first_three: the score relative to the lowest and the highest of `ranked`, 1 / rank, and
      whether the passage is in `ranked`, and among its first three
    - found_rank, found_share, found_by_first: 1 / best rank among `found`, share of the rankings that contain it, and
      whether the first does
    - title_of_question, words_of_question, new_words_of_question: share of the question's content words (stems) in the
      title, in title and text, and in these but not in the first passage
    - question_has_title, question_of_title: whether the whole title occurs in the question, share of its words that do
    - linked_from_1, _2, _3, _any: whether the title, if not in the question, occurs in the first, second, third or any
      of the first five passages
    - links_to_others: how many titles of the first ten occur in the passage, at most three, divided by three
    - length: words divided by 100, at most 2
    """
    candidates = pool.candidates
    if not candidates:
        return np.zeros((0, len(NAMES)))
    return np.array(list(_rows(query, pool, candidates)), dtype=np.float64)


def _rows(query: str, pool: Pool, candidates: Sequence[Passage]) -> Iterator[list[float]]:
    asked = words_of(query)
    question, stems = f" {' '.join(asked)} ", stems_of(asked)
    places = {passage.id: place for place, passage in reversed(list(enumerate(pool.ranked)))}
    relative = relative_scores(pool.ranked)
    found = [{p.id: rank for rank, p in reversed(list(enumerate(each)))} for each in pool.found]
    first = [read_text(passage.title, passage.text) for passage in pool.ranked[:_LINKED]]
    named = [each.title for each in first if len(each.title) >= SHORTEST_TITLE]
    for passage in candidates:
        own = read_text(passage.title, passage.text)
        place = places.get(passage.id)
        ranks = [each.get(passage.id) for each in found]
        best = min((rank for rank in ranks if rank is not None), default=None)
        in_question = bool(own.title) and f" {own.title} " in question
        linkable = len(own.title) >= SHORTEST_TITLE and not in_question
        links = [linkable and each.title != own.title and f" {own.title} " in each.text for each in first[:LINKING]]
        mentioned = sum(title != own.title and f" {title} " in own.text for title in named)
        known = stems & own.stems
        yield [
            relative[place] if place is not None else 0.0,
            1 / (1 + place) if place is not None else 0.0,
            float(place is not None),
            float(place is not None and place < CONTEXTS),
            1 / (1 + best) if best is not None else 0.0,
            share(sum(rank is not None for rank in ranks), len(ranks)),
            float(bool(ranks) and ranks[0] is not None),
            share(len(stems & own.title_stems), len(stems)),
            share(len(known), len(stems)),
            share(len(known - first[0].stems if first else known), len(stems)),
            float(in_question),
            share(len(stems & own.title_stems), len(own.title_stems)),
            *(float(len(links) > place and links[place]) for place in range(3)),
            float(any(links)),
            min(mentioned, 3) / 3,
            min(own.length, 200) / 100,
        ]
