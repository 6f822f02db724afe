"""Parsing the text of a request, the only thing that the simulated LM sees of it.

Parsed are the instruction, the input blocks of the last user message, what is said of each field, the requested fields
with their types, and the form of the reply. Demonstrations, which precede the last user message, are not read. Nothing
else reaches the skills.
"""

import re
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Literal

from dspy.lm15 import Request

from programs.lms.requests import system_text

Kind = Literal["text", "bool", "number", "list", "option"]

_HEADER = re.compile(r"^\[\[ ## (\w+) ## \]\][ \t]*$", re.MULTILINE)
_REQUESTED_MARKER = re.compile(r"\[\[ ## (\w+) ## \]\]")
_REQUESTED_JSON = re.compile(r"JSON object\b.*", re.DOTALL)
_BACKTICKED = re.compile(r"`(\w+)`")
# `- name (type): description` in the project's layout, "1. `name` (type): description" in DSPy's own.
_DESCRIBED = re.compile(r"^(?:- |\d+\. `)(\w+)`?(?: \(([^)]*)\))?(?::[ ]*(.*))?$", re.MULTILINE)
_ONE_WORD = re.compile(r"one word, yes or no", re.IGNORECASE)
_LAST_LINE = re.compile(r"\n\n(?=[^\n]*(?:`\[\[ ## |JSON object|one word, yes or no))", re.IGNORECASE)
_GIVEN = "\n\nGiven:\n"  # ends the instruction in the project's layout
_OBJECTIVE = "your objective is:"  # begins it in DSPy's own
_QUOTED = re.compile(r"['\"]([^'\"]+)['\"]")


@dataclass(frozen=True)
class FieldNote:
    """What a prompt says of a field.

    Args:
        kind: The kind of its value.
        description: Its description; empty if there is none.
        options: The options of a choice.
        json_list: Whether a list is written as JSON, as DSPy's own layouts expect it.
        whole: Whether a number is a whole one.
    """

    kind: Kind = "text"
    description: str = ""
    options: tuple[str, ...] = ()
    json_list: bool = False
    whole: bool = False


@dataclass(frozen=True)
class RequestedField:
    """One field that the reply must contain."""

    name: str
    note: FieldNote = FieldNote()

    @property
    def kind(self) -> Kind:
        """The kind of its value."""
        return self.note.kind

    @property
    def options(self) -> tuple[str, ...]:
        """The options of a field of kind "option"."""
        return self.note.options


@dataclass(frozen=True)
class Prompt:
    """A parsed prompt.

    Args:
        instruction: What to do, without the list of fields.
        blocks: Text of every input block by name.
        requested: The fields to reply with, in order; empty in the one-word form and for a prompt without fields.
        form: How to reply: headers, a JSON object, one word, or plain text.
        text: The whole text, whose words are counted as tokens.
        system: The system text: the instruction and all that is said of the fields.
        notes: What is said of each field, by name.
    """

    instruction: str
    blocks: dict[str, str]
    requested: tuple[RequestedField, ...]
    form: Literal["chat", "json", "word", "plain"]
    text: str
    system: str = ""
    notes: dict[str, FieldNote] = field(default_factory=dict)


def parse_request(request: Request) -> Prompt:
    """Return the parsed text of a request."""
    messages = [(message.role, message.text or "") for message in request.messages]
    system = system_text(request) + "\n".join(text for role, text in messages if role in {"system", "developer"})
    task = next((text for role, text in reversed(messages) if role == "user"), "")
    task, _, reminder = _split_reminder(task)
    instruction, fields = _split_instruction(system)
    notes = {name: _note(kind, description) for name, kind, description in _DESCRIBED.findall(fields)}
    requested, form = _requested(reminder, notes)
    text = "\n\x1e".join([system, *(f"{role}\x1f{content}" for role, content in messages)])
    return Prompt(instruction, _blocks(task), requested, form, text, system, notes)


def _split_instruction(system: str) -> tuple[str, str]:
    """Return the instruction and the lines that describe the fields."""
    if _OBJECTIVE in system:
        fields, _, instruction = system.rpartition(_OBJECTIVE)
        return instruction.strip(), fields
    instruction, _, fields = system.rpartition(_GIVEN)
    return (instruction, fields) if instruction else (system, system)


def _split_reminder(task: str) -> tuple[str, str, str]:
    """Return the task, a separator and the closing instruction on how to reply."""
    cuts = [match.start() for match in _LAST_LINE.finditer(task)]
    return (task[: cuts[-1]], "\n\n", task[cuts[-1] :]) if cuts else (task, "", "")


def _blocks(task: str) -> dict[str, str]:
    """Return the text below each header line by the header's name; of equal names the first counts."""
    headers = list(_HEADER.finditer(task))
    blocks: dict[str, str] = {}
    for header, following in zip_longest(headers, headers[1:]):
        text = task[header.end() : following.start() if following else len(task)]
        blocks.setdefault(header[1], text.strip())
    return blocks


def _requested(
    reminder: str, notes: dict[str, FieldNote]
) -> tuple[tuple[RequestedField, ...], Literal["chat", "json", "word", "plain"]]:
    if _ONE_WORD.search(reminder):
        return (), "word"
    names = [name for name in _REQUESTED_MARKER.findall(reminder) if name != "completed"]
    form: Literal["chat", "json"] = "chat"
    if not names and (tail := _REQUESTED_JSON.search(reminder)):
        names, form = _BACKTICKED.findall(tail[0]), "json"
    fields = tuple(RequestedField(name, notes.get(name, FieldNote())) for name in dict.fromkeys(names))
    return (fields, form) if fields else ((), "plain")


def _note(kind: str, description: str) -> FieldNote:
    """Return what the words for type and description say, in the project's or in DSPy's own layout."""
    kind, description = kind.strip(), description.strip()
    if kind.startswith("one of "):
        return FieldNote("option", description, tuple(kind.removeprefix("one of ").split(", ")))
    if kind.startswith("Literal["):
        return FieldNote("option", description, tuple(_QUOTED.findall(kind)))
    if kind.lower() in {"true or false", "bool"}:
        return FieldNote("bool", description)
    if kind.lower() in {"whole number", "number", "int", "float"}:
        return FieldNote("number", description, whole=kind.lower() in {"whole number", "int"})
    kind = kind.lower()
    return FieldNote("list" if "list" in kind else "text", description, json_list=kind.startswith("list["))
