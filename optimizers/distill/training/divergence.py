"""Losses and weights that are no longer numbers."""

import math
from collections.abc import Mapping
from typing import Any

from signatures.common.errors import UserError

MOST_SKIPPED = 10  # steps in a row; single ones happen in 16 bits


class Diverged(UserError):
    """The loss or the weights are no numbers any more, so training further is in vain."""


class Skips:
    """Counts the steps that are skipped because loss or gradient was not a number: one would ruin all weights."""

    def __init__(self, learning_rate: float, total: int = 0):
        self._learning_rate, self.total, self.in_a_row = learning_rate, total, 0

    def add(self, step: int, loss: float, gradient: float) -> bool:
        """Return whether to skip a step.

        Raises:
            Diverged: Too many in a row were to be skipped.
        """
        if math.isfinite(loss) and math.isfinite(gradient):
            self.in_a_row = 0
            return False
        self.total += 1
        self.in_a_row += 1
        if self.in_a_row >= MOST_SKIPPED:
            raise Diverged(
                f"The loss was not a number in {self.in_a_row} steps in a row, up to step {step}. "
                f"{_cure(self._learning_rate)}"
            )
        return True


def _cure(learning_rate: float) -> str:
    return f"Lower the learning rate ({learning_rate:g}) in a new run, or compute in float32"


def check_losses(losses: Mapping[str, float], step: int, learning_rate: float) -> None:
    """Check losses on the validation examples.

    Raises:
        Diverged: One is not a number.
    """
    if not all(math.isfinite(loss) for loss in losses.values()):
        raise Diverged(f"The loss on the validation examples is not a number after step {step}. {_cure(learning_rate)}")


def finite(weights: Mapping[str, Any]) -> bool:
    """Tell whether all weights are numbers."""
    return all(bool(weight.isfinite().all()) for weight in weights.values())


def check_weights(weights: Mapping[str, Any], step: int, learning_rate: float) -> None:
    """Check the weights to be written.

    Raises:
        Diverged: One is not a number.
    """
    if not finite(weights):
        raise Diverged(f"The weights contain NaN or infinity after step {step}. {_cure(learning_rate)}")
