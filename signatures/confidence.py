"""The confidence of an answer: what a program states in `details["confidence"]` of its prediction."""

from collections.abc import Mapping
from typing import Any


def stated_confidence(details: Any) -> float | None:
    """Return the probability in [0, 1] that the details of a prediction state of its answer; None if they do not."""
    return as_probability(details_of_answer(details).get("confidence"))


def details_of_answer(details: Any) -> dict[str, Any]:
    """Return the details of a prediction, and those of the member that answered where a combination states no own."""
    found: dict[str, Any] = {}
    while isinstance(details, Mapping):
        found = {**details, **found}
        details = details.get("member_details")
    return found


def as_probability(value: Any) -> float | None:
    """Return a number in [0, 1]; None for anything else."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 <= value <= 1 else None
