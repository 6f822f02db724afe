"""The tokens of a call as a server states them."""

from collections.abc import Mapping
from typing import Any

from dspy.lm15 import Usage


def stated_usage(usage: Any, thinking: str = "", answer: str = "") -> Usage:
    """Return the tokens that can be tokens; None for what the server does not state, or states as 0, text or less.

    A prompt and a reply have at least one token each, so 0 is no statement; budgets then count an estimate. If the
    server does not state the tokens of the thinking, they are estimated by its length.

    Args:
        usage: The field `usage` of a reply.
        thinking: Text of the thinking.
        answer: Text of the answer.
    """
    written = _count(usage, "completion_tokens")
    thought = _count(usage.get("completion_tokens_details"), "reasoning_tokens") if isinstance(usage, Mapping) else None
    if thought is None and thinking and written is not None:
        thought = round(written * len(thinking) / (len(thinking) + len(answer)))
    return Usage(input_tokens=_count(usage, "prompt_tokens"), output_tokens=written, reasoning_tokens=thought)


def _count(counts: Any, name: str) -> int | None:
    value = counts.get(name) if isinstance(counts, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
