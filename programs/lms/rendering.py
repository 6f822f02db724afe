"""Render values in a prompt: passages are numbered; passages, hops and texts take one line each.

Passages and model output are untrusted. What could imitate the structure of the prompt is escaped here: field markers,
the special tokens of widespread chat templates (ChatML and Llama 3 `<|...|>`, DeepSeek with full-width bars, Gemma's
turns, Llama 2's and Mistral's `[INST]`), and line breaks, by which one passage could imitate another. Tokens of other
templates are not escaped, nor are plain words: the LM still sees an instruction in a passage.
"""

import re
from collections.abc import Sequence
from typing import Any

from dspy.adapters.utils import format_field_value
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from signatures.types import Hop, Passage

_FIELD_MARKER = re.compile(r"\[\[\s*##\s*(.*?)\s*##\s*\]\]")
_SPECIAL_TOKEN = re.compile(
    r"<(?=[|｜]\S|/?s>|(?:start|end)_of_turn>|(?:bos|eos)>|</?SYS>>)|\[(?=/?(?:INST|SYSTEM_PROMPT)\])", re.IGNORECASE
)
_PASSAGES = TypeAdapter(list[Passage])
_HOPS = TypeAdapter(list[Hop])


def escape(text: str) -> str:
    """Return `text` without field markers (`[[ ## x ## ]]` becomes `[x]`) and without chat-template tokens."""
    previous = None
    while previous != text:  # removing a marker may reveal one around it
        previous, text = text, _FIELD_MARKER.sub(r"[\1]", text)
    return _SPECIAL_TOKEN.sub(r"\g<0> ", text)  # a space after the bracket: no longer a special token


def _one_line(text: str) -> str:
    return " ".join(escape(text).split())


def render_passages(passages: Sequence[Passage]) -> str:
    """Return one line `[n] title: text` for each passage, n counted from 1."""
    if not passages:
        return "(none)"
    return "\n".join(
        f"[{number}] {_one_line(passage.title)}: {_one_line(passage.text)}"
        if passage.title
        else f"[{number}] {_one_line(passage.text)}"
        for number, passage in enumerate(passages, start=1)
    )


def render_hops(hops: Sequence[Hop]) -> str:
    """Return one line `n. question (evidence: "...") -> answer` for each hop, n counted from 1.

    The answer ends the line, because a small LM copies what follows it as well.
    """
    if not hops:
        return "(none)"
    lines = []
    for number, hop in enumerate(hops, start=1):
        evidence = f' (evidence: "{_one_line(hop.evidence)}")' if hop.evidence else ""
        lines.append(f"{number}. {_one_line(hop.question)}{evidence} -> {_one_line(hop.answer)}")
    return "\n".join(lines)


def render_texts(texts: Sequence[str]) -> str:
    """Return one line `- text` for each text, without numbers, which would look like those of passages."""
    if not texts:
        return "(none)"
    return "\n".join(f"- {_one_line(text)}" for text in texts)


def is_passages(field: FieldInfo) -> bool:
    """Return whether the type of a field is a list of passages."""
    return field.annotation == list[Passage]


def render(field: FieldInfo, value: Any) -> str:
    """Return the text of an input field's value; demos loaded from JSON contain dicts instead of passages."""
    if is_passages(field) and not isinstance(value, str):
        return render_passages(_PASSAGES.validate_python(value))
    if field.annotation == list[Hop] and not isinstance(value, str):
        return render_hops(_HOPS.validate_python(value))
    if field.annotation == list[str] and not isinstance(value, str):
        return render_texts(value)
    return escape(str(format_field_value(field_info=field, value=value)))
