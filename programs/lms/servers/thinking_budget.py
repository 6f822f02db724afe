"""Tokens reserved for the thinking of a model, and replies that contain nothing else."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from programs.lms.servers.detect import ServerDescription
from programs.parts.meter import Thought, record, record_thinking
from signatures.common.errors import UserNotice

THINKING_TOKENS = 4096
CURE = "raise thinking_tokens, or set reasoning to low or off"


@dataclass(frozen=True)
class ThinkingBudget:
    """The limits of a thinking model's replies; without one, limits are those of the answer.

    Args:
        tokens: Reserved for thinking in the longest reply; 0 for a model that does not think.
        yes_no_tokens: Added to the limit of a yes/no question.
        yes_no_off: Whether yes/no questions are asked with thinking turned off.
    """

    tokens: int = 0
    yes_no_tokens: int = 0
    yes_no_off: bool = False

    def limit_yes_no(self, lm_kwargs: dict[str, Any], least: int) -> None:
        """Set the limit of a yes/no question: thinking is turned off, or gets its tokens, or both if it may go on.

        Args:
            lm_kwargs: Settings of the call, with `max_tokens`.
            least: Tokens of a thinking model's answer, which may begin with line breaks.
        """
        if self.yes_no_off:
            lm_kwargs["reasoning_effort"] = "none"
        if self.yes_no_off or self.yes_no_tokens:
            lm_kwargs["max_tokens"] = max(lm_kwargs["max_tokens"], least)
        lm_kwargs["max_tokens"] += self.yes_no_tokens

    def no_answer(self) -> str:
        """Return why a reply contains only thinking and no answer; shown as a notice once per process."""
        text = (
            f"The LM's reply contains only thinking and no answer ({self.tokens} tokens reserved for thinking): {CURE}."
        )
        if text not in _shown:
            _shown.add(text)
            warnings.warn(UserNotice(text), stacklevel=2)
        return text


def thinking_budget(found: ServerDescription) -> ThinkingBudget:
    """Return the limits for what is known of a server."""
    tokens = found.thinking_tokens
    return ThinkingBudget(tokens, 0 if found.yes_no_sure else tokens, found.yes_no_reasoning == "off")


_shown: set[str] = set()


def is_thinking_only(output: Any) -> bool:
    """Return whether an output of the LM has thinking, but neither an answer nor calls of tools."""
    if not isinstance(output, dict) or output.get("text") or output.get("tool_calls"):
        return False
    return bool(output.get("reasoning_content"))


def record_replies(outputs: Sequence[Any]) -> None:
    """Record the thinking of LM outputs, under the running predictor, and how many have nothing else."""
    callers = dspy.settings.caller_modules or [None]
    for output in outputs:
        if isinstance(output, dict) and output.get("reasoning_content"):
            record_thinking(Thought(callers[-1], output["reasoning_content"]))
    if empty := sum(map(is_thinking_only, outputs)):
        record(thinking_only=empty)
