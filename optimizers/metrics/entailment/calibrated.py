"""Oracles of the offline default: features of pairs, weighed as fits what people said about some.

The weights stand in `weights.json` with where they come from; `python -m experiments.benchmarks.entailment_fit` makes
them. They are fitted on one half of the data, and what is known of their worth is measured on the other.
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


class Measure(Protocol):
    """Gives features of pairs."""

    @property
    def fingerprint(self) -> str:
        """Return a short text that changes with what changes the features."""
        ...

    def __call__(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return an array of shape (len(pairs), features)."""
        ...


class Containment:
    """The features of `containment` as a measure."""

    fingerprint = f"containment{lexical_features.VERSION}"

    def __call__(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return the features of `lexical_features.NAMES`."""
        return lexical_features.containment(pairs)


@functools.cache
def measures(name: str) -> tuple[Measure, ...]:
    """Return what makes the features of an oracle of `FEATURES`; models are shared by all oracles of this process."""
    lexical, semantic = Containment(), _closeness()
    return {
        "lexical": (lexical,),
        "semantic": (semantic,),
        "calibrated": (lexical, semantic),
        "likelihood": (_likelihood(),),
    }[name]


@functools.cache
def _closeness() -> Measure:
    return embedding_features.Closeness()


@functools.cache
def _likelihood() -> Measure:
    return likelihood.Likelihood()


def measure(name: str, pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """Return the features of pairs for an oracle of `FEATURES`, shape (len(pairs), features)."""
    return np.concatenate([one(pairs) for one in measures(name)], axis=1)


class WeighedOracle:
    """Probability from features by logistic regression.

    Args:
        name: One of `FEATURES`.
        weights: Instead of those that `weights.json` holds.
    """

    threshold = 0.5

    def __init__(self, name: str, weights: Weights | None = None):
        self.name = name
        self.weights = weights or stored_weights(name)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Return the name with a hash of weights and of what makes the features."""
        parts = [json.dumps(self.weights.as_dict()), *(one.fingerprint for one in measures(self.name))]
        return f"{self.name}:{sha256_text(' '.join(parts))[:16]}"

    @property
    def agreement(self) -> Agreement | None:
        """Return what was measured on the half of the data that the weights were not fitted on."""
        return agreement_of(self.fingerprint)

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        """Return P(entailed) of each (premise, hypothesis); 0 when one side is blank."""
        return over_distinct(pairs, lambda distinct: list(self.weights(measure(self.name, distinct))))


def stored_weights(name: str) -> Weights:
    """Return the weights of an oracle as committed."""
    stored: dict[str, Any] = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    return Weights.from_dict(stored["oracles"][name])
