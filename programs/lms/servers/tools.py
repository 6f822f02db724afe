"""Tools in requests to a chat server, and the calls in its replies.

https://platform.openai.com/docs/guides/function-calling; vLLM needs --enable-auto-tool-choice and a parser
(https://docs.vllm.ai/en/stable/features/tool_calling/), llama.cpp --jinja.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from dspy.lm15 import FunctionTool, ToolCallPart, UnsupportedFeatureError

from programs.lms.tolerant import check_length
from signatures.common.strict_json import parse_strict_json

UNREAD = "arguments"  # the argument under which those that are no JSON object are handed on, for the tool to refuse
_MOST_CALLS = 32
_LONGEST_NAME, _LONGEST_UNREAD = 64, 1000  # characters; servers allow names of 64


def tool_fields(tools: Iterable[Any]) -> dict[str, Any]:
    """Return the fields of a request with tools; none without.

    Raises:
        UnsupportedFeatureError: A tool is not a function of ours, but one of a provider.
    """
    listed = []
    for tool in tools:
        if not isinstance(tool, FunctionTool):
            raise UnsupportedFeatureError("tools other than functions are not supported on a server", feature="tools")
        function = {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters}
        listed.append({"type": "function", "function": function})
    return {"tools": listed} if listed else {}


def tool_calls(message: Mapping[str, Any]) -> list[ToolCallPart]:
    """Return the calls of a message, at most 32; those without a name are left out, and long names are cut."""
    found = message.get("tool_calls")
    parts: list[ToolCallPart] = []
    for number, call in enumerate(found[:_MOST_CALLS] if isinstance(found, list) else ()):
        function = call.get("function") if isinstance(call, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(name, str) or not name.strip():
            continue
        id = call.get("id")
        given = id if isinstance(id, str) and id else f"call_{number}"
        parts.append(ToolCallPart(given, name[:_LONGEST_NAME], _arguments(function.get("arguments"))))
    return parts


def _arguments(stated: Any) -> dict[str, Any]:
    """Return the arguments of a call; as JSON refuses NaN and repeated names, so does a tool."""
    text = "" if stated is None else stated if isinstance(stated, str) else json.dumps(stated)
    try:
        check_length(text)
        read = parse_strict_json(text.encode()) if text.strip() else {}
    except ValueError:
        read = None
    return read if isinstance(read, dict) else {UNREAD: text[:_LONGEST_UNREAD]}
