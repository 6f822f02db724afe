"""Separate the thinking of a model from its answer, in the text of a reply and in its tokens."""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dspy
from dspy.lm15 import TokenLogprob

from programs.lms.servers.detect import ServerDescription
from programs.parts.meter import Thought, record, record_thinking
from signatures.common.errors import UserNotice

# What models write around their thinking, where no parser of the server takes it out.
TAGS = (
    (
        "<think>",
        "</think>",
    ),  # DeepSeek R1, Qwen 3, GLM: https://docs.sglang.io/docs/advanced_features/separate_reasoning
    ("<thinking>", "</thinking>"),
    ("[THINK]", "[/THINK]"),  # Magistral: https://huggingface.co/mistralai/Magistral-Small-2509
    ("◁think▷", "◁/think▷"),  # Kimi: https://docs.sglang.io/docs/advanced_features/separate_reasoning
    ("<seed:think>", "</seed:think>"),  # Seed-OSS: https://huggingface.co/ByteDance-Seed/Seed-OSS-36B-Instruct
)
# Fields of a message that hold thinking: `reasoning` on vLLM from 0.11 and on Ollama, `reasoning_content` elsewhere.
# https://docs.vllm.ai/en/stable/features/reasoning_outputs/, https://github.com/ollama/ollama/blob/main/openai/openai.go
FIELDS = ("reasoning_content", "reasoning")
NOT_SHOWN = "(thinking that the server does not show)"

_NOT_BLANK = re.compile(r"\S")
_HEADER = re.compile(r"\[\[ ## ")


def split_text(text: str) -> tuple[str, str]:
    """Return the thinking and the answer in a text; the thinking is empty if there is none.

    Thinking is at the start. It may lack its end, if the reply was cut, and its start, if the chat template wrote
    that into the prompt. A closing tag inside an answer (a passage may contain one) ends nothing. Some models think
    again, or begin with an empty block that their template turned off.
    """
    blocks, answer = _leading_blocks(text)
    for _, end in () if blocks else TAGS:
        before, closed, rest = text.partition(end)
        if closed and not _HEADER.search(before) and not before.lstrip().startswith(("{", "```")):
            more, answer = _leading_blocks(rest.lstrip())
            blocks = [before, *more]
            break
    return "\n".join(filter(None, map(str.strip, blocks))), answer


def _leading_blocks(text: str) -> tuple[list[str], str]:
    """Return the blocks of thinking that a text begins with, and the rest; the last block may lack its end."""
    blocks: list[str] = []
    place = _first_letter(text, 0)
    while tags := next((tags for tags in TAGS if text.startswith(tags[0], place)), None):
        begin = place + len(tags[0])
        end = text.find(tags[1], begin)
        blocks.append(text[begin:] if end < 0 else text[begin:end])
        place = len(text) if end < 0 else _first_letter(text, end + len(tags[1]))
    return blocks, text[place:] if blocks else text


def _first_letter(text: str, place: int) -> int:
    found = _NOT_BLANK.search(text, place)
    return found.start() if found else len(text)


def parts_of(message: Mapping[str, Any]) -> tuple[str, str]:
    """Return what a message of the chat API, or a fragment of one, states as thinking, and as content.

    Raises:
        TypeError: The content is neither text, a list of parts, nor null.
    """
    stated = next((message[name] for name in FIELDS if isinstance(message.get(name), str) and message[name]), "")
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    if content is not None and not isinstance(content, str):
        raise TypeError(f"content is {type(content).__name__}")
    return stated, content or ""


def split_message(message: dict[str, Any]) -> tuple[str, str, bool]:
    """Return the thinking and the answer of a message of the chat API, and whether its content had both.

    Raises:
        TypeError: The content is neither text, a list of parts, nor null.
    """
    separate, content = parts_of(message)
    inside, answer = split_text(content)
    return "\n".join(part for part in (separate.strip(), inside) if part), answer, bool(inside)


def answer_tokens(tokens: Sequence[TokenLogprob], answer: str, thinking: str) -> tuple[TokenLogprob, ...]:
    """Return the tokens of the answer: servers differ in whether those of the thinking come before them.

    SGLang gives both even with a reasoning parser (https://github.com/sgl-project/sglang/issues/25055).
    """
    if not thinking:
        return tuple(tokens)
    text = "".join(token.token for token in tokens)
    begin = max((text.rfind(end) + len(end) for _, end in TAGS if end in text), default=0)
    wanted = answer.strip()
    start_of_answer = text.rfind(wanted) if wanted else -1
    if start_of_answer < begin:
        return ()
    position = 0
    for number, token in enumerate(tokens):
        position += len(token.token)
        if position > start_of_answer:
            return tuple(tokens[number:])
    return ()


def thinking_apart(output: Any) -> Any:
    """Return an output of an LM with the thinking that its text begins with apart, as `ChatEngine` does."""
    known = output if isinstance(output, dict) else {"text": output}
    text = known.get("text")
    thinking, answer = split_text(text) if isinstance(text, str) else ("", "")
    if not thinking:
        return output
    separate = known.get("reasoning_content")
    return {**known, "text": answer, "reasoning_content": "\n".join(filter(None, (separate, thinking)))}


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
