"""Read the action of an agent that its LM wrote in the plain text of papers instead of in fields.

    Thought 1: Who is the harbour master?
    Action 1: Search[harbour master of Quillon]

`Search[x]` and `search: x` are the action with its argument, in a reply without fields or as the value of the field
`action`. Other names that LMs are used to are understood (`finish` for `final answer`). A thought may be missing.
"""

import re
from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin

_LINE = re.compile(
    r"^\W*(thought|action input|action|input|query|final answer|answer)(?:\s+\d+)?\W*?[:：]\s*", re.IGNORECASE
)
_CALL = re.compile(r"^\W*(?:\d+[.)]\s*)?([a-z][a-z _-]{1,20}?)\s*([\[(（【:：])(.*)", re.IGNORECASE)
_CLOSING = {"[": "]", "(": ")", "（": "）", "【": "】"}
_EDGES = " \t\n\"'`*_“”‘’「」"
_LONGEST = 2000  # characters of an action; nothing longer is one
_INPUTS = ("action input", "input", "query")
_ANSWERS = ("final answer", "answer")
_NAMES = {
    "search": ("retrieve", "query", "google", "wikipedia", "semantic search"),
    "lookup": ("look up", "find"),
    "keywords": ("keyword", "keyword search"),
    "read": ("open", "read chunk", "chunk read"),
    "finish": ("answer", "final answer", "conclude", "done", "stop", "end"),
}


def options_of(signature: Any) -> tuple[str, ...]:
    """Return the actions that a signature offers; none if it is not that of an agent with action and argument."""
    fields = signature.output_fields
    if not {"action", "argument"} <= fields.keys() or get_origin(fields["action"].annotation) is not Literal:
        return ()
    return get_args(fields["action"].annotation)


def with_action(raw: dict[str, Any], completion: str, options: Sequence[str], names: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a reply, the action and its argument as they were meant.

    Args:
        raw: The fields that were found in the reply, if any.
        completion: The reply.
        options: The actions that are offered.
        names: Of the output fields.
    """
    if not raw:
        raw = _written(completion, options)
    if not isinstance(raw.get("action"), str):
        return raw
    label = _LINE.match(raw["action"])
    name, argument, _ = _called(raw["action"][label.end() :] if label else raw["action"], options)
    if name is None:
        return raw
    thought = {"thought": ""} if "thought" in names else {}
    # A reply that ends before its argument was cut off, and stays unparseable.
    given = {"argument": raw.get("argument") or argument} if argument or "argument" in raw else {}
    return {**thought, **raw, "action": name, **given}


def _written(completion: str, options: Sequence[str]) -> dict[str, Any]:
    """Return thought, action and argument of a reply in plain text; empty if it has no action.

    The first line labelled as an action counts, else a line that is a call in brackets and nothing else, else one that
    is labelled as the answer. Nothing in a thought is an action.
    """
    lines = completion.splitlines()
    labels = [_LINE.match(line) for line in lines]
    kinds = [label[1].casefold() if label else "" for label in labels]
    said = [line[label.end() :] if label else line for line, label in zip(lines, labels, strict=True)]
    found = [_called(text, options) for text in said]
    stated = (place for place, kind in enumerate(kinds) if kind == "action" and found[place][0])
    called = (place for place, kind in enumerate(kinds) if not kind and found[place][0] and found[place][2])
    place = next(iter((*stated, *called)), None)
    if place is not None:
        name, argument, _ = found[place]
        follows = said[place + 1].strip(_EDGES) if (*kinds, "")[place + 1] in _INPUTS else ""
        argument = argument or follows
    else:
        place = next((place for place, kind in enumerate(kinds) if kind in _ANSWERS), None)
        if place is None or "finish" not in options:
            return {}
        name, argument = "finish", said[place].strip(_EDGES)
    thought = [said[before].strip() for before in range(place) if kinds[before] in ("", "thought")]
    return {"thought": " ".join(filter(None, thought)), "action": name, "argument": argument}


def _called(text: str, options: Sequence[str]) -> tuple[str | None, str, bool]:
    """Return the action that a text names, None if it names none, the argument, and if a bracket around it ends all.

    Only the first line counts: what LMs write behind it are results that they made up.
    """
    line = text.strip().partition("\n")[0]
    call = _CALL.match(line) if len(line) <= _LONGEST else None
    name, opening, argument = (call[1], call[2], call[3]) if call else (line, "", "")
    whole = False
    if closing := _CLOSING.get(opening):
        end = _end(argument, opening, closing)
        whole = not argument[end + 1 :].strip(_EDGES + ".")
        argument = argument[:end]
    word = re.sub(r"[\s_-]+", " ", name.strip(_EDGES + ".")).casefold()
    for option in options:
        if word == option or word in _NAMES.get(option, ()):
            return option, argument.strip(_EDGES), whole
    return None, "", False


def _end(text: str, opening: str, closing: str) -> int:
    """Return the place of the bracket that closes the one before a text; its length if none does."""
    depth = 1
    for place, sign in enumerate(text):
        depth += (sign == opening) - (sign == closing)
        if not depth:
            return place
    return len(text)
