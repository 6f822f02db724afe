"""Percentile bootstrap intervals of the means of many columns of values, which share their draws.

A resample is the same for every column of one length: how often it draws each question. These counts times the values
of all columns are the sums of all resamples in one matrix product.
"""

from collections.abc import Sequence

RESAMPLES = 2000
LEVEL = 0.95
_BLOCK = 2_000_000  # numbers drawn at once: bounds memory at about 50 MB


def bootstrap_intervals(
    columns: Sequence[Sequence[float]], *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> list[tuple[float, float]]:
    """Return the interval of the mean of each column; it does not depend on the other columns.

    Args:
        columns: At least one value each; lengths may differ.
        resamples: Number of draws.
        level: Share of the resampled means within the interval.
        seed: Seed of the draws; each length starts from it anew.
    """
    import numpy as np

    places: dict[int, list[int]] = {}
    for place, column in enumerate(columns):
        places.setdefault(len(column), []).append(place)
    ends = [(1 - level) / 2, (1 + level) / 2]
    intervals: dict[int, tuple[float, float]] = {}
    for length, members in places.items():
        data = np.array([columns[place] for place in members], dtype=float).T
        means = np.empty((resamples, len(members)))
        generator = np.random.default_rng(seed)
        block = max(1, _BLOCK // length)
        for start in range(0, resamples, block):
            rows = min(block, resamples - start)
            draws = generator.integers(0, length, size=(rows, length))
            draws += length * np.arange(rows)[:, None]  # a bin of its own for each question of each resample
            counts = np.bincount(draws.ravel(), minlength=rows * length).reshape(rows, length)
            means[start : start + rows] = counts.astype(float) @ data / length
        lows, highs = np.quantile(means, ends, axis=0)
        intervals |= zip(members, zip(lows.tolist(), highs.tolist(), strict=True), strict=True)
    return [intervals[place] for place in range(len(columns))]
