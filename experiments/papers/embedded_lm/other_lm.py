"""A predictor that asks another LM than its program."""

from typing import Any

import dspy


class AskedOf(dspy.Predict):
    """A predictor with an LM of its own, which neither the state of its program nor an artifact contains.

    Args:
        signature: Of the predictor.
        lm: Asked in place of the program's.
    """

    def __init__(self, signature: Any, lm: Any):
        super().__init__(signature)
        self._other = lm

    def forward(self, **inputs: Any) -> Any:
        """Return the prediction of the other LM."""
        with dspy.context(lm=self._other):
            return super().forward(**inputs)
