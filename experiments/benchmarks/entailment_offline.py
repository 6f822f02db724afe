"""What the offline entailment oracles are worth: on the held-out half, on other halves, and across data sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from experiments.benchmarks.entailment_figures import SETS, Values, auc_difference, by_set, measures, parts
from experiments.benchmarks.entailment_fit import SHARED as OFFLINE
from experiments.benchmarks.entailment_fit import features_of, fit_on
from experiments.benchmarks.entailment_pairs import Judged, some
from optimizers.metrics.entailment.calibrated import WeightedOracle

PLAIN = "token containment"
SEEDS = range(1, 21)


@dataclass(frozen=True)
class Half:
    """Pairs with the features of the offline oracles, each model having run over them once.

    Args:
        pairs: What people judged.
        features: For each of `OFFLINE` an array of shape (pairs, features).
    """

    pairs: Sequence[Judged]
    features: Mapping[str, Values]

    @property
    def said(self) -> NDArray[np.bool_]:
        """People's verdicts."""
        return np.array([one.entailed for one in self.pairs])

    def of(self, data: str) -> "Half":
        """Return the pairs of one data set."""
        return self.rows([one.data == data for one in self.pairs])

    def rows(self, kept: Sequence[bool]) -> "Half":
        """Return the pairs that are kept."""
        pairs = [one for one, stays in zip(self.pairs, kept, strict=True) if stays]
        return Half(pairs, {name: rows[np.array(kept)] for name, rows in self.features.items()})


def measured(pairs: Sequence[Judged]) -> Half:
    """Return pairs with their features."""
    return Half(pairs, features_of(pairs))


def token_containment(fitted_on: Half, held_out: Half) -> dict[str, Any]:
    """Return the measures of the plainest oracle: the share of the statement's content words in the text.

    Its threshold is the one of the best mean balanced accuracy on the other half.
    """
    halves = [fitted_on.of(data) for data in SETS]

    def worth(threshold: float) -> float:
        return sum(balanced_accuracy_score(half.said, half.features["lexical"][:, 0] >= threshold) for half in halves)

    threshold = float(max(np.unique(fitted_on.features["lexical"][:, 0]), key=worth))
    return {"threshold": threshold, **by_set(held_out.features["lexical"][:, 0], threshold, held_out.pairs)}


def transfer(fitted_on: Half, held_out: Half) -> dict[str, Any]:
    """Return what oracles fitted on one data set alone are worth on the other."""
    found: dict[str, Any] = {}
    for data, other in (SETS, SETS[::-1]):
        here, there = fitted_on.of(data), held_out.of(other)
        for name in OFFLINE:
            weights = fit_on(name, here.features[name], here.pairs)
            found[f"{name}, {data} -> {other}"] = measures(weights(there.features[name]), 0.5, there.pairs)
    return found


def offline_line(name: str, half: Half) -> dict[str, Any]:
    """Return the line of one of `OFFLINE`, from features already measured."""
    oracle = WeightedOracle(name)
    scores = oracle.weights(half.features[name])
    told = by_set(scores, oracle.threshold, half.pairs)
    return {"fingerprint": oracle.fingerprint, "threshold": oracle.threshold, **told}


def above_plain(half: Half) -> dict[str, Any]:
    """Return how far the calibrated oracle's AUC lies above plain containment's, on each data set and pooled."""
    scores = WeightedOracle("calibrated").weights(half.features["calibrated"])
    plain = half.features["lexical"][:, 0]
    return {name: auc_difference(scores[rows], plain[rows], chosen) for name, rows, chosen in parts(half.pairs)}


def other_splits(both: Half) -> dict[str, Any]:
    """Return mean held-out AUCs over other splits by item, each half fitted on once: one split is a matter of luck."""
    found: dict[str, dict[str, list[float]]] = {name: {data: [] for data in SETS} for name in (PLAIN, *OFFLINE)}
    for seed in SEEDS:
        halves = np.array([one.half(seed) for one in both.pairs])
        for kept in (0, 1):
            fitted, held = both.rows(list(halves == kept)), both.rows(list(halves != kept))
            for name in found:
                for data in SETS:
                    there = held.of(data)
                    plain = there.features["lexical"][:, 0]
                    rows = there.features.get(name)
                    scores = plain if rows is None else fit_on(name, fitted.features[name], fitted.pairs)(rows)
                    found[name][data].append(float(roc_auc_score(there.said, scores)))
    return {
        "splits": len(SEEDS),
        **{
            name: {
                data: {"auc": round(float(np.mean(one)), 4), "sd": round(float(np.std(one)), 4)}
                for data, one in by.items()
            }
            for name, by in found.items()
        },
    }


def measure_offline(
    fitted_on: Sequence[Judged], held_out: Sequence[Judged], samples: Mapping[str, int]
) -> dict[str, Any]:
    """Return the lines of the offline oracles and of plain containment, their difference, other splits, and transfer.

    Args:
        fitted_on: What the stored weights were fitted on.
        held_out: The other half.
        samples: Slow oracles and how many pairs they judge; the calibrated oracle is measured on the same ones.
    """
    fitted, held = measured(fitted_on), measured(held_out)
    lines = {PLAIN: token_containment(fitted, held)}
    lines |= {name: offline_line(name, held) for name in OFFLINE}
    for n in sorted(set(samples.values())):
        chosen = {one.pair for one in some(held_out, n)}
        lines[f"calibrated, sample of {n}"] = offline_line(
            "calibrated", held.rows([o.pair in chosen for o in held_out])
        )
    rows = {name: np.concatenate([fitted.features[name], held.features[name]]) for name in OFFLINE}
    return {
        "lines": lines,
        "calibrated_minus_token_containment": above_plain(held),
        "other_splits": other_splits(Half([*fitted_on, *held_out], rows)),
        "transfer": transfer(fitted, held),
    }
