"""Agreement of the offline entailment oracles with human judgements: held-out half, other splits, other datasets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from experiments.benchmarks.entailment_figures import RESAMPLES, SETS, Values, auc_difference, by_set, measures, parts
from experiments.benchmarks.entailment_fit import SHARED as OFFLINE
from experiments.benchmarks.entailment_fit import features_of, fit_on
from experiments.benchmarks.entailment_pairs import JudgedPair, sample
from optimizers.metrics.entailment.calibrated import WeightedOracle

CONTAINMENT = "token containment"
SEEDS = range(1, 21)


@dataclass(frozen=True)
class Half:
    """Pairs with the features of the offline oracles.

    Args:
        pairs: The judged pairs.
        features: For each of `OFFLINE` an array of shape (pairs, features).
    """

    pairs: Sequence[JudgedPair]
    features: Mapping[str, Values]

    @property
    def entailed(self) -> NDArray[np.bool_]:
        """Human verdicts."""
        return np.array([pair.entailed for pair in self.pairs])

    def of(self, data: str) -> "Half":
        """Return the pairs of one dataset."""
        return self.rows([pair.data == data for pair in self.pairs])

    def rows(self, kept: Sequence[bool]) -> "Half":
        """Return the pairs whose flag in `kept` is true."""
        pairs = [pair for pair, is_kept in zip(self.pairs, kept, strict=True) if is_kept]
        return Half(pairs, {name: rows[np.array(kept)] for name, rows in self.features.items()})


def with_features(pairs: Sequence[JudgedPair]) -> Half:
    """Return pairs with their features."""
    return Half(pairs, features_of(pairs))


def token_containment(fitted_on: Half, held_out: Half, resamples: int = RESAMPLES) -> dict[str, Any]:
    """Return the measures of the simplest oracle: the share of the statement's content words in the text.

    Its threshold maximises the sum of the balanced accuracies of the datasets on the other half.
    """
    halves = [fitted_on.of(data) for data in SETS]

    def summed_accuracy(threshold: float) -> float:
        return sum(
            balanced_accuracy_score(half.entailed, half.features["lexical"][:, 0] >= threshold) for half in halves
        )

    threshold = float(max(np.unique(fitted_on.features["lexical"][:, 0]), key=summed_accuracy))
    scores = held_out.features["lexical"][:, 0]
    return {"threshold": threshold, **by_set(scores, threshold, held_out.pairs, resamples)}


def transfer(fitted_on: Half, held_out: Half, resamples: int = RESAMPLES) -> dict[str, Any]:
    """Return the measures of oracles fitted on one dataset and tested on the other."""
    result: dict[str, Any] = {}
    for data, other in (SETS, SETS[::-1]):
        fitted, tested = fitted_on.of(data), held_out.of(other)
        for name in OFFLINE:
            weights = fit_on(name, fitted.features[name], fitted.pairs)
            result[f"{name}, {data} -> {other}"] = measures(
                weights(tested.features[name]), 0.5, tested.pairs, resamples
            )
    return result


def offline_line(name: str, half: Half) -> dict[str, Any]:
    """Return the line of one of `OFFLINE` from its features."""
    oracle = WeightedOracle(name)
    scores = oracle.weights(half.features[name])
    line = by_set(scores, oracle.threshold, half.pairs)
    return {"fingerprint": oracle.fingerprint, "threshold": oracle.threshold, **line}


def calibrated_gain(half: Half) -> dict[str, Any]:
    """Return the calibrated oracle's AUC minus those of token containment and of `lexical`, on each set and pooled."""
    scores = WeightedOracle("calibrated").weights(half.features["calibrated"])
    others = {
        "calibrated_minus_token_containment": half.features["lexical"][:, 0],
        "calibrated_minus_lexical": WeightedOracle("lexical").weights(half.features["lexical"]),
    }
    return {
        key: {name: auc_difference(scores[rows], other[rows], chosen) for name, rows, chosen in parts(half.pairs)}
        for key, other in others.items()
    }


def other_splits(both: Half) -> dict[str, Any]:
    """Return mean and standard deviation of held-out AUCs over other splits by item; each half is fitted on once."""
    result: dict[str, dict[str, list[float]]] = {name: {data: [] for data in SETS} for name in (CONTAINMENT, *OFFLINE)}
    for seed in SEEDS:
        halves = np.array([pair.half(seed) for pair in both.pairs])
        for kept in (0, 1):
            fitted, held = both.rows(list(halves == kept)), both.rows(list(halves != kept))
            for name in result:
                for data in SETS:
                    tested = held.of(data)
                    containment = tested.features["lexical"][:, 0]
                    rows = tested.features.get(name)
                    scores = containment if rows is None else fit_on(name, fitted.features[name], fitted.pairs)(rows)
                    result[name][data].append(float(roc_auc_score(tested.entailed, scores)))
    return {
        "splits": len(SEEDS),
        **{
            name: {
                data: {"auc": round(float(np.mean(aucs)), 4), "sd": round(float(np.std(aucs)), 4)}
                for data, aucs in by_data.items()
            }
            for name, by_data in result.items()
        },
    }


def measure_offline(
    fitted_on: Sequence[JudgedPair], held_out: Sequence[JudgedPair], samples: Mapping[str, int]
) -> dict[str, Any]:
    """Return the lines of the offline oracles and of token containment, their difference, other splits, and transfer.

    Args:
        fitted_on: The pairs that the stored weights were fitted on.
        held_out: The other half.
        samples: Slow oracle -> number of pairs it judges; the calibrated oracle is also measured on these samples.
    """
    fitted, held = with_features(fitted_on), with_features(held_out)
    lines = {CONTAINMENT: token_containment(fitted, held)}
    lines |= {name: offline_line(name, held) for name in OFFLINE}
    for n in sorted(set(samples.values())):
        chosen = {pair.texts for pair in sample(held_out, n)}
        lines[f"calibrated, sample of {n}"] = offline_line(
            "calibrated", held.rows([pair.texts in chosen for pair in held_out])
        )
    rows = {name: np.concatenate([fitted.features[name], held.features[name]]) for name in OFFLINE}
    return {
        "lines": lines,
        **calibrated_gain(held),
        "other_splits": other_splits(Half([*fitted_on, *held_out], rows)),
        "transfer": transfer(fitted, held),
    }
