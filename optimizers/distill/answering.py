"""Asking single predictors outside of a program's loop, as the recipes of GenGround and CoV-RAG do."""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import dspy

from programs.parts.meter import Meter, metered, record_parallel
from programs.parts.predict import try_predict
from signatures.common.errors import UserError

Running = Callable[[], AbstractContextManager[Any]]
"""Returns a context in which predictors run on an LM (`Connection.use`)."""

running_lm: Running = contextlib.nullcontext
"""The LM that runs already."""


class Cut(Exception):
    """A prompt did not fit into the context of the LM, or a reply into its limit of tokens.

    Args:
        rule: The rule that it breaks, as in `filters`.
    """

    def __init__(self, rule: str):
        super().__init__(rule)
        self.rule = rule


def ask(predictor: dspy.Module, on: Running = running_lm, **inputs: Any) -> dspy.Prediction | None:
    """Return the reply of one predictor, None if it cannot be parsed.

    Raises:
        Cut: The prompt or the reply was cut.
    """
    meter = Meter()
    try:
        with on(), metered(meter):
            reply = try_predict(predictor, **inputs)
    finally:
        record_parallel([meter])
    if meter.truncated or meter.cut_replies:
        raise Cut("no_prompt_cut" if meter.truncated else "no_reply_cut")
    return reply


def predictor_of(program: dspy.Module, name: str, recipe: str) -> dspy.Module:
    """Return a predictor by name.

    Raises:
        UserError: The program has no such predictor.
    """
    found: dict[str, Any] = dict(program.named_predictors())
    if name not in found:
        raise UserError(f"The recipe {recipe} needs a program with the predictor {name!r}, as {recipe} has it.")
    return found[name]
