"""Offline oracles, `lexical` the default: logistic regression over features of pairs, fitted to human judgements.

`python -m experiments.benchmarks.entailment_fit` writes the weights and their provenance to `weights.json`. They are
fitted on one half of the data, and their agreement with human judgements is measured on the other. All weights are at
least 0, because every feature is evidence for entailment: a larger share of the hypothesis in the premise never lowers
the probability, even with few pairs to fit.
"""

import functools
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimizers.metrics.entailment.embedding_features import EmbeddingFeatures
from optimizers.metrics.entailment.likelihood import LikelihoodFeatures
from optimizers.metrics.entailment.oracle import Measured, Pair, over_distinct
from signatures.common.errors import needing
from signatures.common.files import sha256_text
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


@dataclass(frozen=True)
class Weights:
    """A fitted model.

    Args:
        features: Names of the columns.
        center: Mean of each column in the fitting data.
        scale: Standard deviation of each column in the fitting data.
        weight: One per standardised column, at least 0.
        bias: Log-odds at the mean.
    """

    features: tuple[str, ...]
    center: tuple[float, ...]
    scale: tuple[float, ...]
    weight: tuple[float, ...]
    bias: float

    def __call__(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a probability in [0, 1] per row of shape (n, features)."""
        standard = (rows - np.array(self.center)) / np.array(self.scale)
        probabilities: NDArray[np.float64] = np.exp(-np.logaddexp(0, -(standard @ np.array(self.weight) + self.bias)))
        return probabilities

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON, rounded to six significant digits."""

        def short(values: Sequence[float]) -> list[float]:
            return [float(f"{value:.6g}") for value in values]

        return {
            "features": list(self.features),
            "center": short(self.center),
            "scale": short(self.scale),
            "weight": short(self.weight),
            "bias": short([self.bias])[0],
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Weights":
        """Return the weights from the dict of `as_dict`."""
        columns = {name: tuple(fields[name]) for name in ("features", "center", "scale", "weight")}
        return cls(**columns, bias=fields["bias"])


def fit(
    rows: NDArray[np.float64],
    entailed: Sequence[bool],
    groups: Sequence[str],
    features: Sequence[str],
) -> Weights:
    """Return the weights that minimise log-loss, with equal weight of the groups and of both labels within a group.

    Hence 0.5 is the threshold for balanced labels, and a dataset's size has no influence. A small squared
    penalty keeps weights near 0.

    Args:
        rows: Shape (n, features).
        entailed: Human labels, n values.
        groups: Dataset of each row, n values; each needs both labels.
        features: Names of the columns.

    Raises:
        ValueError: A group lacks entailed or other pairs.
    """
    with needing("review", "Fitting an oracle"):
        from scipy.optimize import minimize

    labels, group_of = np.asarray(entailed, dtype=float), np.asarray(groups)
    share = np.zeros(len(labels))
    for group in sorted(set(groups)):
        for label in (0.0, 1.0):
            members = (group_of == group) & (labels == label)
            if not members.any():
                raise ValueError(f"All pairs of {group!r} have one label: nothing can be fitted.")
            share[members] = 1 / members.sum()
    share /= share.sum()
    center, scale = rows.mean(axis=0), np.maximum(rows.std(axis=0), 1e-6)
    standard = (rows - center) / scale

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weight, bias = parameters[:-1], parameters[-1]
        logits = standard @ weight + bias
        value = float(share @ (np.logaddexp(0, logits) - labels * logits) + weight @ weight / 200)
        error = share * (1 / (1 + np.exp(-logits)) - labels)
        return value, np.append(standard.T @ error + weight / 100, error.sum())

    columns = rows.shape[1]
    fitted = minimize(loss, np.zeros(columns + 1), jac=True, bounds=[(0, None)] * columns + [(None, None)])
    return Weights(tuple(features), tuple(center), tuple(scale), tuple(fitted.x[:-1]), float(fitted.x[-1]))


WEIGHTS = Path(__file__).with_name("weights.json")


class LexicalFeatures:
    """The features of `lexical_features` as an extractor."""

    names = NAMES
    fingerprint = f"containment{VERSION}"

    def __call__(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return the features of `NAMES`."""
        return lexical_features(pairs)


# All oracles of this process share them, and so their models, which the first use loads.
_LEXICAL, _SEMANTIC, _LIKELIHOOD = LexicalFeatures(), EmbeddingFeatures(), LikelihoodFeatures()
_EXTRACTORS: dict[str, tuple[LexicalFeatures | EmbeddingFeatures | LikelihoodFeatures, ...]] = {
    "lexical": (_LEXICAL,),
    "semantic": (_SEMANTIC,),
    "calibrated": (_LEXICAL, _SEMANTIC),
    "likelihood": (_LIKELIHOOD,),
}
FEATURES: Mapping[str, tuple[str, ...]] = {
    oracle: tuple(name for extractor in extractors for name in extractor.names)
    for oracle, extractors in _EXTRACTORS.items()
}


def measure_features(name: str, pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """Return the features of pairs for an oracle of `FEATURES`, shape (len(pairs), features)."""
    return np.concatenate([extractor(pairs) for extractor in _EXTRACTORS[name]], axis=1)


class WeightedOracle(Measured):
    """Logistic regression over features of pairs."""

    threshold = 0.5

    def __init__(self, name: str, weights: Weights | None = None):
        self.name = name
        self.weights = weights or stored_weights(name)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Return the name with a hash of the weights and of the extractors' fingerprints."""
        parts = [json.dumps(self.weights.as_dict()), *(extractor.fingerprint for extractor in _EXTRACTORS[self.name])]
        return f"{self.name}:{sha256_text(' '.join(parts))[:16]}"

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        """Return P(entailed) of each (premise, hypothesis); 0 if one side is blank."""
        return over_distinct(pairs, lambda distinct: list(self.weights(measure_features(self.name, distinct))))


def stored_weights(name: str) -> Weights:
    """Return the weights of an oracle from `weights.json`."""
    stored: dict[str, Any] = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    return Weights.from_dict(stored["oracles"][name])
