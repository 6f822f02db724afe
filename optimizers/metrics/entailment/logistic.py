"""Logistic regression with weights of at least 0, because every feature is evidence for entailment.

Hence a larger share of the hypothesis in the premise never lowers the probability, even with few pairs to fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Weights:
    """A fitted model.

    Args:
        features: Names of the columns.
        center: Mean of each column in the fitting data.
        scale: Standard deviation of each column in the fitting data.
        weight: One per standardised column, at least 0.
        bias: Log-odds at the mean.
    """

    features: tuple[str, ...]
    center: tuple[float, ...]
    scale: tuple[float, ...]
    weight: tuple[float, ...]
    bias: float

    def __call__(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a probability in [0, 1] per row of shape (n, features)."""
        from scipy.special import expit

        standard = (rows - np.array(self.center)) / np.array(self.scale)
        probabilities: NDArray[np.float64] = expit(standard @ np.array(self.weight) + self.bias)
        return probabilities

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON, rounded to six significant digits."""

        def short(values: Sequence[float]) -> list[float]:
            return [float(f"{value:.6g}") for value in values]

        return {
            "features": list(self.features),
            "center": short(self.center),
            "scale": short(self.scale),
            "weight": short(self.weight),
            "bias": short([self.bias])[0],
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "Weights":
        """Return the weights from the dict of `as_dict`."""
        columns = {name: tuple(fields[name]) for name in ("features", "center", "scale", "weight")}
        return cls(**columns, bias=fields["bias"])


def fit(
    rows: NDArray[np.float64],
    entailed: Sequence[bool],
    groups: Sequence[str],
    features: Sequence[str],
    penalty: float = 1.0,
) -> Weights:
    """Return the weights that minimise log-loss, with equal weight of the groups and of both labels within a group.

    Hence 0.5 is the threshold for balanced labels, and a dataset's size has no influence.

    Args:
        rows: Shape (n, features).
        entailed: Human labels, n values.
        groups: Dataset of each row, n values; each needs both labels.
        features: Names of the columns.
        penalty: Strength of the squared penalty on weights.

    Raises:
        ValueError: A group lacks entailed or other pairs.
    """
    from scipy.optimize import minimize

    labels, group_of = np.asarray(entailed, dtype=float), np.asarray(groups)
    share = np.zeros(len(labels))
    for group in sorted(set(groups)):
        for label in (0.0, 1.0):
            members = (group_of == group) & (labels == label)
            if not members.any():
                raise ValueError(f"All pairs of {group!r} have one label: nothing can be fitted.")
            share[members] = 1 / members.sum()
    share /= share.sum()
    center, scale = rows.mean(axis=0), np.maximum(rows.std(axis=0), 1e-6)
    standard = (rows - center) / scale

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weight, bias = parameters[:-1], parameters[-1]
        logits = standard @ weight + bias
        value = float(share @ (np.logaddexp(0, logits) - labels * logits) + penalty * (weight @ weight) / 200)
        error = share * (1 / (1 + np.exp(-logits)) - labels)
        return value, np.append(standard.T @ error + penalty * weight / 100, error.sum())

    columns = rows.shape[1]
    fitted = minimize(loss, np.zeros(columns + 1), jac=True, bounds=[(0, None)] * columns + [(None, None)])
    return Weights(tuple(features), tuple(center), tuple(scale), tuple(fitted.x[:-1]), float(fitted.x[-1]))
