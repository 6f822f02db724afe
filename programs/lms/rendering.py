"""Render values in a prompt: passages are numbered; passages, hops, turns and texts take one line each.

Passages and model output are untrusted. What could imitate the structure of the prompt is escaped here: field markers,
the markers between which DSPy's adapters expect message blocks, the special tokens of widespread chat templates (ChatML
and Llama 3 `<|...|>`, DeepSeek with full-width bars, Gemma's turns, Llama 2's and Mistral's `[INST]`, `<think>`), and
line breaks, by which one passage could imitate another. Tokens of other templates are not escaped, nor are plain words:
the LM still sees an instruction in a passage.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from dspy.adapters.utils import format_field_value, serialize_for_json
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from signatures.types import Hop, Passage, Turn

# Each half of a field marker with all brackets, signs and spaces beside it, so that what remains cannot be put together
# to a new one. A match starts at the beginning of a run only: the time is linear in the length of the text.
_OPENING = re.compile(r"(?<!\[)\[{2,}+\s*+##[\s#\[]*+")
_CLOSING = re.compile(r"(?<![\s#\]])[\s#\]]*##\s*+\]{2,}+")
# `<<CUSTOM-TYPE-` begins DSPy's markers of message blocks (`dspy.adapters.types.base_type`).
_SPECIAL_TOKEN = re.compile(
    r"<(?=[|｜]\S|/?s>|(?:start|end)_of_turn>|(?:bos|eos)>|/?tool_(?:call|response)>|</?SYS>>|<CUSTOM-TYPE-)|\[(?=/?(?:INST|SYSTEM_PROMPT)\])",
    re.IGNORECASE,
)
_THOUGHT = re.compile(r"<(?=/?think(?:ing)?>)", re.IGNORECASE)
_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")  # no server takes lone surrogates, and C strings end at NUL
_PASSAGES = TypeAdapter(list[Passage])
_HOPS = TypeAdapter(list[Hop])
_TURNS = TypeAdapter(list[Turn])


def escape(text: str, *, thoughts: bool = False) -> str:
    """Return `text` without field markers (`[[ ## x ## ]]` becomes `[x]`), block markers and chat-template tokens.

    NUL and lone surrogates, which cannot be sent, become U+FFFD. With `thoughts`, the tags of thinking stay.
    """
    text = _UNSENDABLE.sub("\ufffd", text)
    text = _CLOSING.sub("]", _OPENING.sub("[", text))
    text = _SPECIAL_TOKEN.sub(r"\g<0> ", text)  # a space after the bracket: no longer a special token
    return text if thoughts else _THOUGHT.sub(r"\g<0> ", text)


def escape_all(value: Any) -> Any:
    """Return a value as plain data for JSON, with every text in it escaped, also in lists, mappings and models."""
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, Mapping):
        return {escape(str(name)): escape_all(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [escape_all(item) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    plain = serialize_for_json(value)
    return plain if type(plain) is type(value) else escape_all(plain)


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


def render_turns(turns: Sequence[Turn]) -> str:
    """Return one line `n. question -> answer` for each turn, n counted from 1, as for a hop."""
    return render_hops([Hop(question=turn.question, answer=turn.answer) for turn in turns])


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
    if type(value) is str:
        return escape(value)
    if is_passages(field) and not isinstance(value, str):
        return render_passages(_PASSAGES.validate_python(value))
    if field.annotation == list[Hop] and not isinstance(value, str):
        return render_hops(_HOPS.validate_python(value))
    if field.annotation == list[Turn] and not isinstance(value, str):
        return render_turns(_TURNS.validate_python(value))
    if field.annotation == list[str] and not isinstance(value, str):
        return render_texts(value)
    return escape(str(format_field_value(field_info=field, value=value)))


def describe_field(name: str, field: FieldInfo) -> str:
    """Return one line of the system message: a field's name, its type in words, and its description."""
    note = field.json_schema_extra.get("desc", "")  # type: ignore[union-attr]
    kind = _plain_type(field.annotation)
    note = "" if note == f"${{{name}}}" else f": {note}"
    return f"- {name}{f' ({kind})' if kind else ''}{note}"


def _plain_type(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(map(str, get_args(annotation)))
    return {bool: "true or false", int: "whole number", float: "number", list[str]: "list of texts"}.get(annotation, "")
