"""Offline oracles, `lexical` the default: logistic regression over features of pairs, fitted to human judgements.

`python -m experiments.benchmarks.entailment_fit` writes the weights and their provenance to `weights.json`. They are
fitted on one half of the data, and their agreement with human judgements is measured on the other.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from optimizers.metrics.entailment import embedding_features, lexical_features, likelihood
from optimizers.metrics.entailment.agreement import agreement_of
from optimizers.metrics.entailment.logistic import Weights
from optimizers.metrics.entailment.oracle import Agreement, Pair, over_distinct
from signatures.common.files import sha256_text

WEIGHTS = Path(__file__).with_name("weights.json")
FEATURES: Mapping[str, tuple[str, ...]] = {
    "lexical": lexical_features.NAMES,
    "semantic": embedding_features.NAMES,
    "calibrated": (*lexical_features.NAMES, *embedding_features.NAMES),
    "likelihood": likelihood.NAMES,
}


class FeatureExtractor(Protocol):
    """Computes features of pairs."""

    @property
    def fingerprint(self) -> str:
        """Return a short string that changes whenever the features change."""
        ...

    def __call__(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return an array of shape (len(pairs), features)."""
        ...


class LexicalFeatures:
    """The features of `lexical_features` as an extractor."""

    fingerprint = f"containment{lexical_features.VERSION}"

    def __call__(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return the features of `lexical_features.NAMES`."""
        return lexical_features.lexical_features(pairs)


@functools.cache
def extractors(name: str) -> tuple[FeatureExtractor, ...]:
    """Return the extractors of an oracle of `FEATURES`; models are shared by all oracles of this process."""
    lexical, semantic = LexicalFeatures(), _embedding()
    return {
        "lexical": (lexical,),
        "semantic": (semantic,),
        "calibrated": (lexical, semantic),
        "likelihood": (_likelihood(),),
    }[name]


@functools.cache
def _embedding() -> FeatureExtractor:
    return embedding_features.EmbeddingFeatures()


@functools.cache
def _likelihood() -> FeatureExtractor:
    return likelihood.LikelihoodFeatures()


def measure_features(name: str, pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """Return the features of pairs for an oracle of `FEATURES`, shape (len(pairs), features)."""
    return np.concatenate([extractor(pairs) for extractor in extractors(name)], axis=1)


class WeightedOracle:
    """Logistic regression over features of pairs.

    Args:
        name: Key of `FEATURES`.
        weights: Instead of those in `weights.json`.
    """

    threshold = 0.5

    def __init__(self, name: str, weights: Weights | None = None):
        self.name = name
        self.weights = weights or stored_weights(name)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Return the name with a hash of the weights and of the extractors' fingerprints."""
        parts = [json.dumps(self.weights.as_dict()), *(extractor.fingerprint for extractor in extractors(self.name))]
        return f"{self.name}:{sha256_text(' '.join(parts))[:16]}"

    @property
    def agreement(self) -> Agreement | None:
        """Return the agreement measured on the half of the data that the weights were not fitted on."""
        return agreement_of(self.fingerprint)

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        """Return P(entailed) of each (premise, hypothesis); 0 if one side is blank."""
        return over_distinct(pairs, lambda distinct: list(self.weights(measure_features(self.name, distinct))))


def stored_weights(name: str) -> Weights:
    """Return the weights of an oracle from `weights.json`."""
    stored: dict[str, Any] = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    return Weights.from_dict(stored["oracles"][name])
