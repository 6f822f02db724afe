"""Lexical features of a pair: shares of the hypothesis' words, word pairs, numbers and names in the premise."""

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

# Each Chinese or Japanese character is a word, since these scripts have no blanks; so are "1,000" and "3.5".
_WORD = re.compile(rf"[{CJK}]|[^\W{CJK}]+(?:[.,]\d+)*")
_NAME = re.compile(r"\b[A-Z][\w'’-]*")


def words(text: str) -> list[str]:
    """Return the words and numbers of a text in lower case, in order; a Chinese character counts as a word."""
    return [word.lower() for word in _WORD.findall(text)]


@functools.lru_cache(maxsize=2048)
def _premise(text: str) -> tuple[frozenset[str], frozenset[str], frozenset[tuple[str, str]]]:
    """Return words, stems of content words, and pairs of adjacent stems."""
    text_words = words(text)
    stems = [strip_suffix(word) for word in text_words if word not in FUNCTION_WORDS]
    return frozenset(text_words), frozenset(stems), frozenset(itertools.pairwise(stems))


def clear_caches() -> None:
    """Clear the caches of premises and stems, for measurements of speed."""
    _premise.cache_clear()
    strip_suffix.cache_clear()


def _share(matches: Sequence[bool], empty: float) -> float:
    return sum(matches) / len(matches) if matches else empty


def _row(pair: Pair) -> tuple[float, float, float, float]:
    premise_words, premise_stems, premise_bigrams = _premise(pair[0])
    hypothesis_words = words(pair[1])
    stems = [strip_suffix(word) for word in hypothesis_words if word not in FUNCTION_WORDS]
    numbers = [word for word in hypothesis_words if any(letter.isdigit() for letter in word)]
    names = [word.lower() for name in _NAME.findall(pair[1]) for word in words(name)]
    return (
        _share([stem in premise_stems for stem in dict.fromkeys(stems)], 0.0),
        _share([bigram in premise_bigrams for bigram in itertools.pairwise(stems)], 0.0),
        _share([number in premise_words for number in numbers], 1.0),
        _share([name in premise_words for name in names], 1.0),
    )


def lexical_features(pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """Return one row per pair: shares in [0, 1] of the hypothesis that occur in the premise, in the order of `NAMES`.

    - words: distinct content words, stemmed; 0 if there are none
    - word_pairs: adjacent content words that are also adjacent in the premise; 0 if there are none
    - numbers: words with a digit; 1 if there are none
    - names: words with a capital, including the first of a sentence; 1 if there are none
    """
    return np.array([_row(pair) for pair in pairs], dtype=float).reshape(len(pairs), len(NAMES))
