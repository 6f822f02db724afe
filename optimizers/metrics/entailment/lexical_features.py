"""How much of a hypothesis stands in the premise, word for word: words, word pairs, numbers, names."""

import functools
import itertools
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from optimizers.metrics.entailment.oracle import Pair
from signatures.common.words import FUNCTION_WORDS, strip_suffix
from signatures.text import CJK

VERSION = 1  # of the features; part of fingerprints
NAMES = ("words", "word_pairs", "numbers", "names")

# A Chinese or Japanese character is a word of its own, for those scripts set no blanks; "1,000" and "3.5" are one.
_WORD = re.compile(rf"[{CJK}]|[^\W{CJK}]+(?:[.,]\d+)*")
_NAME = re.compile(r"\b[A-Z][\w'’-]*")


def words(text: str) -> list[str]:
    """Return the words and numbers of a text in lower case, in order; a Chinese character counts as a word."""
    return [word.lower() for word in _WORD.findall(text)]


@functools.lru_cache(maxsize=2048)
def _premise(text: str) -> tuple[frozenset[str], frozenset[str], frozenset[tuple[str, str]]]:
    """Return words, stems of content words, and pairs of neighbouring stems."""
    said = words(text)
    stems = [strip_suffix(word) for word in said if word not in FUNCTION_WORDS]
    return frozenset(said), frozenset(stems), frozenset(itertools.pairwise(stems))


def forget() -> None:
    """Drop what is remembered of premises and words, as a measurement of speed needs."""
    _premise.cache_clear()
    strip_suffix.cache_clear()


def _share(found: Sequence[bool], empty: float) -> float:
    return sum(found) / len(found) if found else empty


def _row(pair: Pair) -> tuple[float, float, float, float]:
    said, stems, neighbours = _premise(pair[0])
    asked = words(pair[1])
    wanted = [strip_suffix(word) for word in asked if word not in FUNCTION_WORDS]
    numbers = [word for word in asked if any(letter.isdigit() for letter in word)]
    names = [word.lower() for name in _NAME.findall(pair[1]) for word in words(name)]
    return (
        _share([word in stems for word in dict.fromkeys(wanted)], 0.0),
        _share([two in neighbours for two in itertools.pairwise(wanted)], 0.0),
        _share([number in said for number in numbers], 1.0),
        _share([name in said for name in names], 1.0),
    )


def containment(pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """Return one row per pair: shares in [0, 1] of the hypothesis that stand in the premise, in the order of `NAMES`.

    - words: different content words, stemmed; 0 when there are none
    - word_pairs: neighbouring content words that are neighbours in the premise, too; 0 when there are none
    - numbers: words with a digit; 1 when there are none
    - names: words with a capital, the first of the sentence included; 1 when there are none
    """
    return np.array([_row(pair) for pair in pairs], dtype=float).reshape(len(pairs), len(NAMES))
