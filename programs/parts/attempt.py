"""Call a predictor where an unreadable reply shall not end the question."""

from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError


def attempt(predictor: dspy.Module, **inputs: Any) -> dspy.Prediction | None:
    """Return the prediction, or None when the reply did not hold the fields asked for.

    The adapter has counted the failure by then; what the strategy does instead stands in its own docstring.
    """
    try:
        return predictor(**inputs)
    except AdapterParseError:
        return None
