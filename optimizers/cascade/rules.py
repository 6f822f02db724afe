"""Rules that say from features how doubtful a cheap answer is: two regressions, and each feature alone."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

PENALTY = 30.0  # of the squared weights of standardised features
LOGISTIC, GAIN = "logistic", "gain"
Array = NDArray[np.float64]
Fitter = Callable[[Array, Array], Array]  # (features, gains) -> bias and weights of the raw features


def fitters_of(names: Sequence[str]) -> dict[str, Fitter]:
    """Return every rule by name, for features in this order."""
    fitters = {LOGISTIC: _regression(_logistic), GAIN: _regression(_linear)}
    for place, name in enumerate(names):
        for sign in (1, -1):
            fitters[f"{'+' if sign > 0 else '-'}{name}"] = _single(place, sign)
    return fitters


def _regression(method: Fitter) -> Fitter:
    """Return a fitter that standardises the features first, and undoes it in the weights."""

    def fitter(x: Array, gain: Array) -> Array:
        center, scale = x.mean(axis=0), x.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        bias, *weights = method(np.column_stack([np.ones(len(x)), (x - center) / scale]), gain)
        raw = np.array(weights) / scale
        return np.array([bias - raw @ center, *raw])

    return fitter


def _single(place: int, sign: int) -> Fitter:
    def fitter(x: Array, gain: Array) -> Array:
        column = x[:, place]
        spread = column.std() or 1.0
        raw = np.zeros(x.shape[1] + 1)
        raw[0], raw[place + 1] = -sign * column.mean() / spread, sign / spread
        return raw

    return fitter


def _logistic(x: Array, gain: Array) -> Array:
    """Return the weights of a penalised logistic regression of "the gain is positive", by Newton's method."""
    target, weights = (gain > 0).astype(float), np.zeros(x.shape[1])
    ridge = _ridge(x.shape[1])
    for _ in range(30):
        chance = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        slope = x.T @ (chance - target) + ridge @ weights
        step = np.linalg.solve((x * (chance * (1 - chance))[:, None]).T @ x + ridge, slope)
        weights -= step
        if np.abs(step).max() < 1e-8:
            break
    return weights


def _linear(x: Array, gain: Array) -> Array:
    solved = np.linalg.solve(x.T @ x + _ridge(x.shape[1]), x.T @ gain)
    return np.asarray(solved, dtype=np.float64)


def _ridge(size: int) -> Array:
    ridge = PENALTY * np.eye(size)
    ridge[0, 0] = 1e-6  # the bias is not penalised, but the system stays solvable
    return ridge
