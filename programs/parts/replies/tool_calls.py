"""Tools that an LM calls by the interface of its server, where it has one."""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import dspy
from pydantic import ValidationError

from programs.parts.predict import try_predict

_LONGEST_ERROR = 300  # characters
_UNNAMED = "(unnamed)"


class Call(NamedTuple):
    """One call of a tool.

    Args:
        tool: Its name; one that there may not be.
        result: What the tool returned; None after an error.
        error: Why it could not be called, for the LM; empty if it could.
        shown: The arguments as a text.
    """

    tool: str
    result: Any
    error: str
    shown: str


def calls_tools(predictor: dspy.Predict) -> bool:
    """Return whether the LM that a predictor asks declares that it calls tools."""
    return bool(getattr(predictor.lm or dspy.settings.lm, "supports_function_calling", False))


def try_call_tools(
    predictor: dspy.Predict, tools: Sequence[Callable[..., Any]], **inputs: Any
) -> tuple[dspy.Prediction | None, list[Call]]:
    """Ask an LM that may call tools; return its reply, None if it is neither a text nor a call, and its calls, run.

    The trace gets replies without calls only, and no tools: calls are no demonstrations, since no prompt shows them.

    Args:
        predictor: Its signature has one output, of the type `PlainText`.
        tools: Functions with type hints; their names and docstrings are what the LM is told.
        inputs: Of the signature.
    """
    known = [dspy.Tool(function) for function in tools]
    asked = predictor.signature.append("tools", dspy.InputField(), list[dspy.Tool])
    asked = asked.append("tool_calls", dspy.OutputField(), dspy.ToolCalls)
    with dspy.context(trace=[]):
        try:
            reply = try_predict(predictor, signature=asked, tools=known, **inputs)
        except ValidationError:  # calls of a provider's LM without a name, or with arguments that are no object
            reply = None
    if reply is None:
        return None, []
    calls = [_run(call, known) for call in (reply.tool_calls.tool_calls if reply.tool_calls else ())]
    plain = dspy.Prediction(**{name: reply[name] for name in predictor.signature.output_fields})
    if not calls and dspy.settings.trace is not None:
        dspy.settings.trace.append((predictor, inputs, plain))
    return plain, calls


def _run(call: dspy.ToolCalls.ToolCall, tools: Sequence[dspy.Tool]) -> Call:
    """Run a call; whatever is wrong with it becomes a text, since names and arguments are the LM's."""
    shown = ", ".join(text if isinstance(text := value, str) else _json(value) for value in call.args.values())
    tool = next((tool for tool in tools if tool.name == call.name), None)
    if tool is None:
        names = ", ".join(str(tool.name) for tool in tools)
        return Call(call.name or _UNNAMED, None, f"There is no such tool. There are: {names}.", shown)
    try:
        return Call(call.name, tool(**call.args), "", shown)
    except (ValueError, TypeError) as error:  # as DSPy checks arguments by their schema
        reason = " ".join(str(error).split())[:_LONGEST_ERROR]
        return Call(call.name, None, f"It cannot be called like this: {reason}", shown)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
