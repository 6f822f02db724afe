"""Agreement of scores with human verdicts: AUC, balanced accuracy and kappa, with bootstrap intervals over items."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import balanced_accuracy_score, cohen_kappa_score, roc_auc_score

from experiments.benchmarks.entailment_pairs import JudgedPair

RESAMPLES = 1000
SETS = ("wice", "expertqa")
Values = NDArray[np.float64]


def _resampled(pairs: Sequence[JudgedPair], resamples: int) -> Iterator[NDArray[np.int64]]:
    """Yield row numbers of bootstrap samples of items; samples with a single verdict are skipped."""
    items: dict[tuple[str, str], list[int]] = {}
    for number, pair in enumerate(pairs):
        items.setdefault((pair.data, pair.item), []).append(number)
    groups = [np.array(group) for group in items.values()]
    entailed = np.array([pair.entailed for pair in pairs])
    generator = np.random.default_rng(0)
    for _ in range(resamples):
        rows = np.concatenate([groups[pick] for pick in generator.integers(0, len(groups), len(groups))])
        if entailed[rows].any() and not entailed[rows].all():
            yield rows


def _with_intervals(
    figures: Callable[[NDArray[np.int64]], dict[str, float]], pairs: Sequence[JudgedPair], resamples: int
) -> dict[str, Any]:
    samples = [list(figures(rows).values()) for rows in _resampled(pairs, resamples)]
    low, high = np.quantile(np.array(samples), [0.025, 0.975], axis=0)
    return {
        name: {"value": round(value, 4), "low": round(float(down), 4), "high": round(float(up), 4)}
        for (name, value), down, up in zip(figures(np.arange(len(pairs))).items(), low, high, strict=True)
    }


def measures(
    scores: Values, threshold: float, pairs: Sequence[JudgedPair], resamples: int = RESAMPLES
) -> dict[str, Any]:
    """Return AUC, balanced accuracy and kappa of scores with human verdicts, with intervals and counts.

    `judged_entailed` is the share of pairs that the scores call entailed.

    Raises:
        ValueError: All verdicts are the same.
    """
    entailed = np.array([pair.entailed for pair in pairs])

    def figures(rows: NDArray[np.int64]) -> dict[str, float]:
        verdicts = scores[rows] >= threshold
        return {
            "auc": float(roc_auc_score(entailed[rows], scores[rows])),
            "balanced_accuracy": float(balanced_accuracy_score(entailed[rows], verdicts)),
            "kappa": float(cohen_kappa_score(entailed[rows], verdicts)),
            "judged_entailed": float(verdicts.mean()),
        }

    items = len({(pair.data, pair.item) for pair in pairs})
    result = _with_intervals(figures, pairs, resamples)
    return {**result, "pairs": len(pairs), "entailed": int(entailed.sum()), "items": items}


def auc_difference(
    scores: Values, others: Values, pairs: Sequence[JudgedPair], resamples: int = RESAMPLES
) -> dict[str, Any]:
    """Return the AUC of `scores` minus that of `others` on the same pairs, with its paired bootstrap interval."""
    entailed = np.array([pair.entailed for pair in pairs])

    def figures(rows: NDArray[np.int64]) -> dict[str, float]:
        return {"auc": float(roc_auc_score(entailed[rows], scores[rows]) - roc_auc_score(entailed[rows], others[rows]))}

    return _with_intervals(figures, pairs, resamples)["auc"]


def by_set(scores: Values, threshold: float, pairs: Sequence[JudgedPair], resamples: int = RESAMPLES) -> dict[str, Any]:
    """Return the measures on each dataset and on all pairs ("pooled")."""
    return {name: measures(scores[rows], threshold, chosen, resamples) for name, rows, chosen in parts(pairs)}


def parts(pairs: Sequence[JudgedPair]) -> list[tuple[str, NDArray[np.int64], list[JudgedPair]]]:
    """Return name, rows and pairs of each dataset, and of all of them as "pooled"."""
    rows_of = {data: np.array([n for n, pair in enumerate(pairs) if pair.data == data], dtype=int) for data in SETS}
    rows_of["pooled"] = np.arange(len(pairs))
    return [(name, rows, [pairs[row] for row in rows]) for name, rows in rows_of.items()]
