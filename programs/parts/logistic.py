"""A weighted sum of features as a logistic score, from 0 to 1, with the weights as one text that is a knob."""

import functools
import math
import re
from collections.abc import Mapping
from types import MappingProxyType

from programs.parts.run_features import FEATURES
from signatures.common.errors import UserError, unknown

BIAS = "bias"
_PAIR = re.compile(r"([a-z_]+)=([-+]?[0-9.]+(?:e[-+]?[0-9]+)?)", re.ASCII)


def score(features: Mapping[str, float], weights: str) -> float:
    """Return the logistic function of the weighted sum of features, from 0 to 1."""
    present = {BIAS: 1.0, **features}
    total = sum(weight * present.get(name, 0.0) for name, weight in parse_weights(weights).items())
    return 1 / (1 + math.exp(-min(700.0, max(-700.0, total))))


@functools.lru_cache(maxsize=256)  # replay asks for the same weights again and again
def parse_weights(text: str) -> Mapping[str, float]:
    """Return the weights by name.

    Raises:
        UserError: The text is not a list of weights, or names a feature that does not exist or one twice.
    """
    weights: dict[str, float] = {}
    for part in text.split():
        match = _PAIR.fullmatch(part)
        try:
            value = float(match[2]) if match else math.nan
        except ValueError:
            value = math.nan
        if match is None or not math.isfinite(value):
            raise UserError(f"Knob weights must be like 'bias=-1 stated=-2.5', got {part[:40]!r}.")
        if match[1] not in (BIAS, *FEATURES):
            raise unknown("feature in weights", match[1], (BIAS, *FEATURES))
        if match[1] in weights:
            raise UserError(f"Knob weights names {match[1]} twice.")
        weights[match[1]] = value
    return MappingProxyType(weights)


def format_weights(weights: Mapping[str, float]) -> str:
    """Return weights as the knob, with four significant digits; those that are 0 are left out."""
    return " ".join(f"{name}={weight:.4g}" for name, weight in weights.items() if weight)
