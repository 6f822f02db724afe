"""A paired test and an interval for scores of the same questions; both are exact or seeded.

The permutation test is that of `scipy.stats.permutation_test` with `permutation_type="samples"`: under the null
hypothesis the two scores of a question could as well be exchanged, so that the sign of their difference is a coin.
"""

from collections.abc import Mapping, Sequence
from itertools import product

_EXACT = 12  # differing questions up to which all signs are tried
_DRAWS = 20_000
_SLACK = 1e-9  # sums of the same numbers in another order count as equal


def better_by_chance(scores: Mapping[str, float], others: Mapping[str, float], *, seed: int = 0) -> float:
    """Return the one-sided p of a paired permutation test: how likely scores as much higher are by chance alone.

    Args:
        scores: Score by question, of what may be better.
        others: The same for what it is compared with; only questions in both count.
        seed: Of the draws, where not all permutations are tried.

    Returns:
        In (0, 1]; 1.0 if no question differs.
    """
    differences = [scores[name] - others[name] for name in sorted(scores.keys() & others.keys())]
    differing = [each for each in differences if each]
    if not differing:
        return 1.0
    least = sum(differing) - _SLACK
    if len(differing) <= _EXACT:
        sums = [sum(sign * each for sign, each in zip(signs, differing, strict=True)) for signs in _signs(differing)]
        return sum(each >= least for each in sums) / len(sums)
    import numpy as np

    signs = np.random.default_rng(seed).choice((-1.0, 1.0), size=(_DRAWS, len(differing)))
    # The order that was found is one of the permutations, so that p is never 0.
    return float((np.sum(signs @ np.asarray(differing) >= least) + 1) / (_DRAWS + 1))


def _signs(differing: Sequence[float]) -> product:
    return product((-1.0, 1.0), repeat=len(differing))


def interval(scores: Mapping[str, float], *, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % percentile bootstrap interval of the mean of at least one score."""
    import numpy as np

    values = np.asarray([scores[name] for name in sorted(scores)])
    drawn = np.random.default_rng(seed).integers(0, len(values), size=(2_000, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), (0.025, 0.975))
    return float(low), float(high)
