"""Recognition of roles: a clear description counts most, then the name, then the instruction, then the shape."""

import json
import re
from collections.abc import Iterable
from typing import Any, Literal

from experiments.world.grammar import parse_question
from experiments.world.prompt import FieldNote, RequestedField
from experiments.world.roles.history import answered_pairs
from experiments.world.roles.words import INPUT_ROLES, OUTPUT_ROLES, Role

Shape = Literal["empty", "passages", "hops", "list", "number", "question", "text", "short"]

_PASSAGE_LINE = re.compile(r"^\[\d+\]\s")
_HOP_LINE = re.compile(r"^\d+\. .+ -> ")
_LIST_LINE = re.compile(r"^- (.+)$", re.MULTILINE)
_SENTENCE = re.compile(r"[.!?](?:\s|$|\[)")
# A description that speaks for one role more than for any other outweighs the name.
_CLEAR_NOTE, _NAME, _NOTE, _NOUN = 9, 8, 4, 2

# What a field is taken for if neither its name, nor its description, nor the instruction tells.
_BY_SHAPE: dict[Shape, str] = {"question": "question", "text": "source", "short": "answer", "number": "answer"}


def read_json_list(text: str) -> list[Any]:
    """Return the items of a JSON list, as DSPy's own adapters render lists; empty for any other text."""
    try:
        items = json.loads(text) if text.startswith("[") else []
    except ValueError:
        return []
    return items if isinstance(items, list) else []


def items_of(text: str) -> list[str]:
    """Return the texts of a list: lines `- item` in the project's layout, JSON in DSPy's own."""
    return [str(item) for item in read_json_list(text)] or _LIST_LINE.findall(text)


def shape_of(text: str, note: FieldNote) -> Shape:
    """Return the shape of an input's text."""
    if text in {"", "(none)", "[]"}:
        return "empty"
    first = next(iter(read_json_list(text)), None)
    if isinstance(first, dict):
        return "passages" if "text" in first else "hops" if "question" in first else "text"
    if _PASSAGE_LINE.match(text):
        return "passages"
    if _HOP_LINE.match(text):
        return "hops"
    if ("\n" in text or "->" in text) and answered_pairs("\n".join(items_of(text)) or text):
        return "hops"
    if first is not None or text.startswith("- ") or note.kind == "list":
        return "list"
    if text.isdecimal() and note.kind == "number":
        return "number"
    if parse_question(text) or text.endswith("?"):
        return "question"
    return "text" if "\n" in text or _SENTENCE.search(text) else "short"


def input_role(name: str, note: FieldNote, text: str, instruction: str) -> str:
    """Return the role of an input; empty if nothing tells.

    Args:
        name: Its name.
        note: Its type and description.
        text: Its text.
        instruction: The instruction of the prompt.
    """
    shape = shape_of(text, note)
    if shape in {"passages", "hops"}:
        return "passages" if shape == "passages" else "history"
    found = _best(INPUT_ROLES, shape, name, note.description, instruction)
    if found or shape != "list":
        return found or _BY_SHAPE.get(shape, "")
    short = not any(_SENTENCE.search(item) for item in items_of(text))
    return "entities" if short else "listed"


def output_role(field: RequestedField, instruction: str, *, alone: bool) -> str:
    """Return the role of a requested field; empty if nothing tells.

    Args:
        field: The field.
        instruction: The instruction of the prompt.
        alone: Whether it is the only field besides reasoning; else the instruction, which speaks of all, tells nothing
            of it.
    """
    if field.kind == "number":
        return "score"
    if field.kind == "option":
        return "option"
    role = _best(OUTPUT_ROLES, field.kind, field.name, field.note.description, instruction if alone else "")
    return role or ("verdict" if field.kind == "bool" else "")


def _best(roles: Iterable[Role], form: str, name: str, description: str, instruction: str) -> str:
    best, points = "", 0
    possible = [role for role in roles if not role.forms or form in role.forms]
    held = [max((len(match[0]) for match in role.notes.finditer(description)), default=0) for role in possible]
    most = max(held, default=0)
    clear = held.count(most) == 1
    for role, length in zip(possible, held, strict=True):
        note = (_CLEAR_NOTE if length == most else 0) if clear else _NOTE
        told = bool(role.names.search(name)) * _NAME + bool(length) * note
        told = told or bool(role.nouns.search(instruction)) * _NOUN
        if told > points:
            best, points = role.role, told
    return best
