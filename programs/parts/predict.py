"""Predictor calls whose unparseable replies do not end the question, and replies that must not become demos."""

from collections.abc import Sequence
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError


def try_predict(predictor: dspy.Module, **inputs: Any) -> dspy.Prediction | None:
    """Return the prediction, or None if the reply is unparseable.

    The adapter has then counted the failure; each strategy documents its fallback.
    """
    try:
        return predictor(**inputs)
    except AdapterParseError:
        return None


def in_order(signature: type[dspy.Signature], names: Sequence[str]) -> type[dspy.Signature]:
    """Return a signature with its input fields, all of which `names` lists, in another order."""
    fields = {name: signature.fields[name] for name in (*names, *signature.output_fields)}
    shown = {name: (field.annotation, field) for name, field in fields.items()}
    made: Any = dspy.Signature
    return made(shown, signature.instructions)


def drop_from_trace(*replies: dspy.Prediction | None) -> None:
    """Remove replies, compared by identity, from the running trace; None and replies not in it are ignored.

    Optimizers make demonstrations of the replies in the trace; a reply that the strategy overrode must not become one.
    """
    trace, dropped = dspy.settings.trace, {id(reply) for reply in replies}
    if trace:
        trace[:] = [entry for entry in trace if id(entry[2]) not in dropped]
