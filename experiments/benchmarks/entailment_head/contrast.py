"""Features that tell a contradiction from a paraphrase: what one wrong word changes, however much else agrees.

Shares of matching words stay high when one number, name or "not" is wrong. These features look for the single mismatch,
and compare with the sentences of the premise that the hypothesis resembles most.
"""

import functools
import itertools
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from optimizers.metrics.entailment.embedding_features import pieces
from optimizers.metrics.entailment.lexical_features import words
from optimizers.metrics.entailment.oracle import Pair
from signatures.common.words import FUNCTION_WORDS, strip_suffix

VERSION = 1  # of the features; part of fingerprints
NAMES = (
    "all_numbers",
    "numbers_together",
    "all_names",
    "few_missing",
    "no_gap",
    "same_polarity",
    "same_order",
    "names_in_order",
    "no_opposite",
    "likeness",
)
CLOSEST = 2  # sentences of the premise that the hypothesis is compared with

_NEGATIONS = frozenset("not no never none neither nor cannot without n't nobody nothing".split())
_NEGATED = re.compile(r"n['’]t\b", re.IGNORECASE)
_NAME = re.compile(r"\b[A-Z][\w'’-]*")
_OPPOSITES = (
    "before after", "born died", "first last", "north south", "northern southern", "east west", "eastern western",
    "won lost", "win lose", "largest smallest", "larger smaller", "older younger", "oldest youngest", "oldest newest",
    "increase decrease", "increased decreased", "increases decreases", "raised lowered", "raise lower", "open close",
    "opened closed", "founded dissolved", "more fewer", "more less", "most least", "early late", "father son",
    "mother daughter", "husband wife", "brother sister", "joined left", "male female", "higher lower", "high low",
    "began ended", "begins ends", "bought sold", "buy sell", "public private", "above below", "accept reject",
    "accepted rejected", "allowed forbidden", "alive dead", "hot cold", "same different", "true false",
)  # fmt: skip


def _stem_of(word: str) -> str:
    return strip_suffix(word)


_OPPOSITE: dict[str, set[str]] = {}
for _pair in _OPPOSITES:
    _one, _other = _pair.split()
    _OPPOSITE.setdefault(_one, set()).add(_other)
    _OPPOSITE.setdefault(_other, set()).add(_one)


@functools.lru_cache(maxsize=2048)
def _premise(text: str) -> tuple[frozenset[str], frozenset[str], tuple[tuple[tuple[str, ...], frozenset[str]], ...]]:
    """Return the words and stems of a premise, and of each sentence its words in order and its stems."""
    sentences = []
    for piece in pieces(text):
        found = _spoken(piece)
        sentences.append((tuple(found), frozenset(_stem_of(word) for word in found if word not in FUNCTION_WORDS)))
    every = frozenset(word for found, _ in sentences for word in found)
    return every, frozenset(stem for _, stems in sentences for stem in stems), tuple(sentences)


def _spoken(text: str) -> list[str]:
    """Return the words of a text, with "not" for "n't"."""
    return words(_NEGATED.sub(" not", text))


def _in_order(sequence: Sequence[str], other: Sequence[str]) -> float:
    """Return the share of neighbours in `sequence`, of those that occur once in both, that keep their order."""
    places = {word: place for place, word in enumerate(other) if other.count(word) == 1}
    common = [places[word] for word in sequence if word in places and sequence.count(word) == 1]
    steps = [after > before for before, after in itertools.pairwise(common)]
    return sum(steps) / len(steps) if steps else 1.0


def _longest_run(missing: Sequence[bool]) -> int:
    longest = run = 0
    for each in missing:
        run = run + 1 if each else 0
        longest = max(longest, run)
    return longest


def _row(pair: Pair) -> list[float]:
    every, stems, sentences = _premise(pair[0])
    spoken = _spoken(pair[1])
    content = [word for word in spoken if word not in FUNCTION_WORDS and word not in _NEGATIONS]
    own = [_stem_of(word) for word in content]
    numbers = [word for word in spoken if any(letter.isdigit() for letter in word)]
    names = [word for name in _NAME.findall(pair[1]) for word in words(name) if word not in FUNCTION_WORDS]
    missing = [stem not in stems for stem in own]
    wanted = set(own)
    ranked = sorted(sentences, key=lambda sentence: -len(wanted & sentence[1]))[:CLOSEST]
    near = [word for found, _ in ranked for word in found]
    closest = ranked[0][0] if ranked else ()
    present = set(near)
    negated = any(word in _NEGATIONS for word in spoken)
    near_negated = any(word in _NEGATIONS for word in closest)
    opposite = any(word not in present and not _OPPOSITE.get(word, set()).isdisjoint(closest) for word in content)
    stemmed = [_stem_of(word) for word in closest]
    near_stems = ranked[0][1] if ranked else frozenset()
    return [
        float(all(number in every for number in numbers)),
        sum(number in present for number in numbers) / len(numbers) if numbers else 1.0,
        float(all(name in every for name in names)),
        1 / (1 + sum(missing)),
        1 / (1 + _longest_run(missing)),
        float(negated == near_negated),
        _in_order(own, stemmed),
        _in_order(names, closest),
        float(not opposite),
        sum(stem in near_stems for stem in own) / len(own) if own else 0.0,
    ]


def contrast_features(pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """Return one row per pair, in [0, 1] and in the order of `NAMES`; 1 means that no mismatch was found.

    - all_numbers, all_names: whether every number and every word with a capital occurs in the premise
    - numbers_together: share of the numbers in the sentences of the premise that are closest (share most words)
    - few_missing, no_gap: 1 / (1 + n), with n the content words missing in the premise, and the longest run of them
    - same_polarity: whether hypothesis and closest sentence both contain a negation, or neither
    - same_order, names_in_order: share of neighbouring content words, and names, in the order of the closest sentence
    - no_opposite: whether no word of the hypothesis is replaced by its opposite ("before", "after") in the closest one
    - likeness: share of the content words in the closest sentence
    """
    return np.array([_row(pair) for pair in pairs], dtype=float).reshape(len(pairs), len(NAMES))
