"""Parsing the text of a request, the only thing that the simulated LM sees of it.

Parsed are the instruction, the input blocks of the last user message, the requested fields with their types, and the
form of the reply. Demonstrations, which precede the last user message, are not read. Nothing else reaches the skills.
"""

import re
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from dspy.lm15 import Request

from programs.lms.requests import system_text

Kind = Literal["text", "bool", "number", "list", "option"]

_HEADER = re.compile(r"^\[\[ ## (\w+) ## \]\][ \t]*$", re.MULTILINE)
_REQUESTED_MARKER = re.compile(r"\[\[ ## (\w+) ## \]\]")
_REQUESTED_JSON = re.compile(r"JSON object\b.*", re.DOTALL)
_BACKTICKED = re.compile(r"`(\w+)`")
_DESCRIBED = re.compile(r"^(?:- |\d+\. `)(\w+)`? \(([^)]*)\)", re.MULTILINE)
_ONE_WORD = re.compile(r"one word, yes or no", re.IGNORECASE)
_LAST_LINE = re.compile(r"\n\n(?=[^\n]*(?:`\[\[ ## |JSON object|one word, yes or no))", re.IGNORECASE)


@dataclass(frozen=True)
class RequestedField:
    """One field that the reply must contain; `options` are those of a field of kind "option"."""

    name: str
    kind: Kind = "text"
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prompt:
    """A parsed prompt.

    Args:
        instruction: The system text.
        blocks: Text of every input block by name.
        requested: The fields to reply with, in order; empty in the one-word form and for a prompt without fields.
        form: How to reply: headers, a JSON object, one word, or plain text.
        text: The whole text, whose words are counted as tokens.
    """

    instruction: str
    blocks: dict[str, str]
    requested: tuple[RequestedField, ...]
    form: Literal["chat", "json", "word", "plain"]
    text: str


def parse_request(request: Request) -> Prompt:
    """Return the parsed text of a request."""
    messages = [(message.role, message.text or "") for message in request.messages]
    system = system_text(request) + "\n".join(text for role, text in messages if role in {"system", "developer"})
    task = next((text for role, text in reversed(messages) if role == "user"), "")
    task, _, reminder = _split_reminder(task)
    requested, form = _requested(reminder, system)
    text = "\n\x1e".join([system, *(f"{role}\x1f{content}" for role, content in messages)])
    return Prompt(system, _blocks(task), requested, form, text)


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
    reminder: str, system: str
) -> tuple[tuple[RequestedField, ...], Literal["chat", "json", "word", "plain"]]:
    if _ONE_WORD.search(reminder):
        return (), "word"
    kinds: dict[str, str] = dict(_DESCRIBED.findall(system))
    names = [name for name in _REQUESTED_MARKER.findall(reminder) if name != "completed"]
    if names:
        return tuple(_field(name, kinds.get(name, "")) for name in dict.fromkeys(names)), "chat"
    if tail := _REQUESTED_JSON.search(reminder):
        names = list(dict.fromkeys(_BACKTICKED.findall(tail[0])))
        return tuple(_field(name, kinds.get(name, "")) for name in names), "json"
    return (), "plain"


def _field(name: str, note: str) -> RequestedField:
    """Return a field from the words that describe its type, in the project's or in DSPy's own layout."""
    note = note.lower()
    if note.startswith("one of "):
        return RequestedField(name, "option", tuple(note.removeprefix("one of ").split(", ")))
    if note in {"true or false", "bool"}:
        return RequestedField(name, "bool")
    if note in {"whole number", "number", "int", "float"}:
        return RequestedField(name, "number")
    return RequestedField(name, "list" if "list" in note else "text")
