"""A small network over features, in numpy alone: what our reranker and our choice of sentences score with."""

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from signatures.common.errors import UserError
from signatures.common.files import sha256_text
from signatures.common.strict_json import read_strict_json

_SHAPES: dict[str, tuple[str, ...]] = {
    "hidden": ("features", "units"),
    "hidden_bias": ("units",),
    "out": ("units",),
    "direct": ("features",),
    "bias": (),
}


class Network:
    """A network with one hidden layer, and the features also weighted directly. `optimizers.listwise` fits it.

    Args:
        weights: `hidden` of shape (features, units), `hidden_bias` of shape (units,), `out` of shape (units,), `direct`
            of shape (features,) and `bias`, a number.
        names: Of the features.
        of: What it belongs to, for messages.

    Raises:
        UserError: An array is missing, has another shape, or contains a number that is not finite.
    """

    def __init__(self, weights: dict[str, Any], names: Sequence[str], of: str):
        try:
            arrays = {name: np.asarray(weights[name], dtype=np.float64) for name in _SHAPES}
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"The weights of {of} cannot be read ({error}): train them again.") from error
        units = arrays["hidden_bias"].shape[0] if arrays["hidden_bias"].ndim == 1 else 0
        for name, array in arrays.items():
            expected = tuple({"features": len(names), "units": units}[axis] for axis in _SHAPES[name])
            if array.shape != expected or not np.isfinite(array).all():
                raise UserError(
                    f"The weights of {of}: {name} has shape {array.shape} instead of {expected}, or numbers "
                    "that are not finite: train them again."
                )
        self._arrays = arrays

    @functools.cached_property
    def digest(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the weights."""
        stored = json.dumps({name: array.tolist() for name, array in sorted(self._arrays.items())})
        return sha256_text(stored)[:16]

    def of_features(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a score in [0, 1] for each row of shape (n, features)."""
        arrays = self._arrays
        hidden = np.tanh(rows @ arrays["hidden"] + arrays["hidden_bias"])
        logits = hidden @ arrays["out"] + rows @ arrays["direct"] + arrays["bias"]
        scores: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(logits, -60, 60)))
        return scores


def read_rounds(path: Path, features: object, of: str) -> list[dict[str, Any]]:
    """Return the weights of both rounds from a file.

    Args:
        path: JSON with `features` and `rounds`.
        features: What `features` must be.
        of: What the weights belong to, for messages.

    Raises:
        UserError: The file is missing or damaged, or its weights are of other features.
    """
    if not path.is_file():
        raise UserError(f"{path} is missing: reinstall verihop, or train {of}.")
    try:
        stored = read_strict_json(path)
    except ValueError as error:
        raise UserError(f"{path} cannot be read ({error}): train {of} again.") from error
    rounds = stored.get("rounds") if isinstance(stored, dict) else None
    if not isinstance(rounds, list) or len(rounds) != 2 or stored.get("features") != features:
        raise UserError(f"{path} has no weights for these features: train {of} again.")
    return rounds
