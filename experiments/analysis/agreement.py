"""Coefficients of agreement: kappa between raters, Pearson and Kendall between ratings and a metric.

An undefined coefficient is None, with the reason; it is never replaced by a number.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from signatures.common.errors import needing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Coefficient:
    """A kappa or a correlation.

    Args:
        value: In [-1, 1]; None if undefined.
        n: Number of items, answers or systems.
        undefined: Why there is no value; None if there is one.
    """

    value: float | None
    n: int
    undefined: str | None = None

    def __str__(self) -> str:
        return f"undefined: {self.undefined}" if self.value is None else f"{self.value:.2f}"


def cohen_kappa(
    first: Sequence[str], second: Sequence[str], grades: Sequence[str], *, weighted: bool = False
) -> Coefficient:
    """Return Cohen's kappa of two raters' grades of the same items.

    Args:
        first: Grades of one rater.
        second: Grades of the other, in the same order.
        grades: All grades of the scale, in order.
        weighted: Weight a disagreement by the distance of the grades (linear weights).

    Raises:
        ValueError: The lists differ in length.
    """
    if len(first) != len(second):
        raise ValueError(f"Two raters' grades must be of the same items, got {len(first)} and {len(second)}.")
    if not first:
        return Coefficient(None, 0, "no item was graded by both raters")
    if len({*first, *second}) == 1:
        return Coefficient(None, len(first), "both raters gave the same grade to every item")
    with needing("review", "The agreement of raters"):
        from sklearn.metrics import cohen_kappa_score

    value = cohen_kappa_score(first, second, labels=list(grades), weights="linear" if weighted else None)
    return Coefficient(float(value), len(first))


def fleiss_kappa(counts: Sequence[Mapping[str, int]]) -> Coefficient:
    """Return Fleiss' kappa for any number of raters, who may differ between items.

    Fleiss, "Measuring nominal scale agreement among many raters", 1971. https://doi.org/10.1037/h0031619

    Args:
        counts: Per item, grade -> number of raters who gave it; every item has the same number of raters, at least 2.

    Raises:
        ValueError: The number of raters differs between items, or is below 2.
    """
    if not counts:
        return Coefficient(None, 0, "no item was graded by enough raters")
    sizes = {sum(item.values()) for item in counts}
    if len(sizes) > 1 or min(sizes) < 2:
        raise ValueError(f"Every item needs the same number of raters, at least 2; got {sorted(sizes)}.")
    (raters,) = sizes
    pairs = raters * (raters - 1)
    observed = math.fsum(sum(n * (n - 1) for n in item.values()) / pairs for item in counts) / len(counts)
    totals: Counter[str] = Counter()
    for item in counts:
        totals.update(item)
    expected = math.fsum((n / (len(counts) * raters)) ** 2 for n in totals.values())
    if sum(n > 0 for n in totals.values()) == 1:
        return Coefficient(None, len(counts), "all raters gave the same grade to every item")
    return Coefficient((observed - expected) / (1 - expected), len(counts))


def _correlation(first: Sequence[float], second: Sequence[float], which: str) -> Coefficient:
    if len(first) != len(second):
        raise ValueError(f"A correlation needs equally many values on both sides, got {len(first)} and {len(second)}.")
    n = len(first)
    if n < 3:
        return Coefficient(None, n, f"needs at least 3 values, got {n}")
    for name, values in (("rating", first), ("metric score", second)):
        if math.isclose(min(values), max(values), rel_tol=1e-12, abs_tol=1e-12):
            return Coefficient(None, n, f"every {name} is the same")
    value = (_pearson if which == "pearson" else _kendall)(first, second)
    return Coefficient(value, n) if math.isfinite(value) else Coefficient(None, n, "the values vary too little")


def _pearson(first: Sequence[float], second: Sequence[float]) -> float:
    import numpy as np

    with np.errstate(invalid="ignore", divide="ignore"):
        unit = []
        for values in (first, second):
            centered = np.asarray(values, dtype=float) - np.mean(values)
            scale = np.abs(centered).max()  # so that squares of tiny values do not vanish
            unit.append(centered / scale / np.linalg.norm(centered / scale))
        return float(np.clip(unit[0] @ unit[1], -1.0, 1.0))


def _kendall(first: Sequence[float], second: Sequence[float]) -> float:
    import numpy as np

    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    agreeing = of_first = of_second = 0
    for place in range(1, len(a)):  # a row at a time: memory grows with the values, not with their pairs
        up, along = np.sign(a[place:] - a[:-place]), np.sign(b[place:] - b[:-place])
        agreeing += int(up @ along)
        of_first += int(np.abs(up).sum())
        of_second += int(np.abs(along).sum())
    return agreeing / math.sqrt(of_first * of_second)


def pearson(ratings: Sequence[float], metric: Sequence[float]) -> Coefficient:
    """Return Pearson's r; undefined for fewer than 3 pairs or if one side does not vary."""
    return _correlation(ratings, metric, "pearson")


def kendall(ratings: Sequence[float], metric: Sequence[float]) -> Coefficient:
    """Return Kendall's tau-b, corrected for ties; undefined for fewer than 3 pairs or if one side does not vary."""
    return _correlation(ratings, metric, "kendall")


def kendall_interval(means: "NDArray[np.float64]", ratings: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % bootstrap interval over questions of tau-b between ratings and the numbers of systems.

    Args:
        means: The number of each system in each resample (`statistics.resampled`).
        ratings: One for each system.

    Returns:
        None for fewer than 3 systems, or if most resamples have no tau.
    """
    import numpy as np

    if means.shape[1] < 3:
        return None
    rated = np.asarray(ratings, dtype=float)
    first, second = np.triu_indices(means.shape[1], 1)
    ours = np.sign(np.round(means[:, first] - means[:, second], 12))
    theirs = np.sign(rated[first] - rated[second])
    norms = np.sqrt(np.abs(ours).sum(axis=1) * np.abs(theirs).sum())
    defined = norms > 0
    if defined.mean() < 0.5:
        return None
    low, high = np.quantile((ours[defined] @ theirs) / norms[defined], [0.025, 0.975])
    return float(low), float(high)
