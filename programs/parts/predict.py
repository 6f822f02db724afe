"""Predictor calls whose unparseable replies do not end the question, and replies that must not become demos."""

import copy
from collections.abc import Sequence
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from signatures.reading import AnswerFromMemory
from signatures.types import Passage


def try_predict(predictor: dspy.Module, **inputs: Any) -> dspy.Prediction | None:
    """Return the prediction, or None if the reply is unparseable.

    The adapter has then counted the failure; each strategy documents its fallback.
    """
    try:
        return predictor(**inputs)
    except AdapterParseError:
        return None


def try_predict_text(predictor: dspy.Module, **inputs: Any) -> tuple[dspy.Prediction | None, str]:
    """Return the prediction and ""; or None and the text of the reply that is unparseable, for those who can use it."""
    try:
        return predictor(**inputs), ""
    except AdapterParseError as error:
        return None, str(error.lm_response)


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


def drop_replies_of(predictor: Any) -> None:
    """Remove all replies of a predictor from the running trace, for the same reason."""
    trace = dspy.settings.trace
    if trace:
        trace[:] = [entry for entry in trace if original_of(entry[0]) is not predictor]


def recall(question: str) -> dspy.Prediction | None:
    """Return an answer from memory, for a program that found nothing to read; None if the reply is unparseable.

    The predictor is no attribute of the program, because optimizers would tune a prompt that questions with passages
    never use; so its replies are no demonstrations either.
    """
    step = try_predict(dspy.Predict(AnswerFromMemory), question=question)
    drop_from_trace(step)
    return step


def read_or_recall(reading: dspy.Module, question: str, passages: Sequence[Passage]) -> dspy.Prediction | None:
    """Return the answer read from passages; with none to read, that from memory. None if the reply is unparseable."""
    return try_predict(reading, question=question, passages=list(passages)) if passages else recall(question)


def stand_in(predictor: dspy.Predict) -> dspy.Predict:
    """Return a shallow copy of a predictor for one question, with which `original_of` finds the predictor itself."""
    made = copy.copy(predictor)
    made.stands_for = original_of(predictor)
    return made


def original_of(predictor: Any) -> Any:
    """Return the predictor that a stand-in was made of; any other predictor is returned as it is."""
    return getattr(predictor, "stands_for", predictor)


def restore_originals() -> None:
    """Let the entries of the running trace name predictors instead of their stand-ins, as optimizers expect."""
    trace = dspy.settings.trace
    for index, (predictor, *rest) in enumerate(trace or ()):
        if hasattr(predictor, "stands_for"):
            trace[index] = (original_of(predictor), *rest)
