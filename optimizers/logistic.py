"""Penalised logistic and linear regression; the weights are those of the features before they were standardised."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Fitter = Callable[[Array, Array], Array]  # (features, target) -> bias and weights of the raw features


def standardised(method: Fitter) -> Fitter:
    """Return a fitter that standardises the features first, and undoes it in the weights."""

    def fitter(x: Array, target: Array) -> Array:
        center, scale = x.mean(axis=0), x.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        bias, *weights = method(np.column_stack([np.ones(len(x)), (x - center) / scale]), target)
        raw = np.array(weights) / scale
        return np.array([bias - raw @ center, *raw])

    return fitter


def logistic(penalty: float) -> Fitter:
    """Return a logistic regression of "the target is positive" (Newton's method) with a penalty of squared weights."""

    def method(x: Array, target: Array) -> Array:
        positive, weights = (target > 0).astype(float), np.zeros(x.shape[1])
        ridge = _ridge(x.shape[1], penalty)
        for _ in range(30):
            chance = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
            slope = x.T @ (chance - positive) + ridge @ weights
            step = np.linalg.solve((x * (chance * (1 - chance))[:, None]).T @ x + ridge, slope)
            weights -= step
            if np.abs(step).max() < 1e-8:
                break
        return weights

    return standardised(method)


def linear(penalty: float) -> Fitter:
    """Return a linear regression of the target with a penalty of squared weights."""

    def method(x: Array, target: Array) -> Array:
        solved = np.linalg.solve(x.T @ x + _ridge(x.shape[1], penalty), x.T @ target)
        return np.asarray(solved, dtype=np.float64)

    return standardised(method)


def _ridge(size: int, penalty: float) -> Array:
    ridge = penalty * np.eye(size)
    ridge[0, 0] = 1e-6  # the bias is not penalised, but the system stays solvable
    return ridge


def feature_matrix(rows: Sequence[Mapping[str, float]], names: Sequence[str]) -> tuple[list[str], Array]:
    """Return those of the features that vary, and their values by row and feature; a feature that a row lacks is 0."""
    varying = [name for name in names if len({row.get(name, 0.0) for row in rows}) > 1]
    values = [[row.get(name, 0.0) for name in varying] for row in rows]
    return varying, np.array(values, dtype=float).reshape(len(rows), len(varying))


FOLDS = 5


def folds(n: int) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the places to fit on, and those held out, of each of `FOLDS` parts; the same ones each time."""
    order = list(range(n))
    random.Random(0).shuffle(order)
    for number in range(FOLDS):
        held = set(order[number::FOLDS])
        yield [place for place in range(n) if place not in held], sorted(held)
