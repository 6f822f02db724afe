"""Call a predictor where an unreadable reply shall not end the question."""

from collections.abc import Iterable
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


def retract(predictor: dspy.Predict) -> None:
    """Take the predictor's last reply out of the trace: the strategy did not follow it.

    Optimizers make demonstrations of what stands in the trace; a reply that was overridden must not become one.
    """
    trace = dspy.settings.trace
    if trace and trace[-1][0] is predictor:
        trace.pop()


def withdraw(replies: Iterable[dspy.Prediction | None]) -> None:
    """Take replies out of the trace, wherever they stand: what came later showed that they should not be followed."""
    trace, unwanted = dspy.settings.trace, {id(reply) for reply in replies}
    if trace:
        trace[:] = [entry for entry in trace if id(entry[2]) not in unwanted]
