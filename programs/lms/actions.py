"""Read the action of an agent that its LM wrote in the plain text of papers instead of in fields.

    Thought 1: Who is the harbour master?
    Action 1: Search[harbour master of Quillon]

`Search[x]` and `search: x` are the action with its argument, in a reply without fields or as the value of the field
`action`. Other names that LMs are used to are understood (`finish` for `final answer`). A thought may be missing, and
an argument, which the agent itself then refuses.
"""

import re
from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin

_LINE = re.compile(r"^\W*(thought|action|answer|final answer)(?:\s+\d+)?\W*?[:：]\s*", re.IGNORECASE)
_CALL = re.compile(r"^\W*([a-z][a-z _-]{1,20}?)\s*([\[(（【:：])(.*)", re.IGNORECASE | re.DOTALL)
_CLOSING = {"[": "]", "(": ")", "（": "）", "【": "】"}
_EDGES = " \t\n\"'`*_“”‘’「」"
_LONGEST = 2000  # characters of an action; nothing longer is one
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
    name, argument = _called(raw["action"], options)
    if name is None:
        return raw
    thought = {"thought": ""} if "thought" in names else {}
    return {**thought, **raw, "action": name, "argument": raw.get("argument") or argument}


def _written(completion: str, options: Sequence[str]) -> dict[str, Any]:
    """Return thought, action and argument of a reply in plain text: its first action; none if it has none."""
    thought: list[str] = []
    for line in completion.splitlines():
        label, said = _LINE.match(line), line
        if label:
            said = line[label.end() :]
            named = label[1].casefold()
            if named.endswith("answer") and "finish" in options:
                return {"thought": " ".join(thought), "action": "finish", "argument": said.strip(_EDGES)}
        name, argument = _called(said, options)
        # A line of a thought may begin with the name of an action; without a label only brackets make it one.
        if name and (argument or label) and (label or re.search(r"[\[(（【]", said)):
            return {"thought": " ".join(thought), "action": name, "argument": argument}
        if said.strip():
            thought.append(said.strip())
    return {}


def _called(text: str, options: Sequence[str]) -> tuple[str | None, str]:
    """Return the action that a text names, None if it names none, and the argument behind it."""
    call = _CALL.match(text) if len(text) <= _LONGEST else None
    name, argument = (call[1], call[3]) if call else (text, "")
    if call and (closing := _CLOSING.get(call[2])) and closing in argument:
        argument = argument[: argument.rindex(closing)]
    word = re.sub(r"[\s_-]+", " ", name.strip(_EDGES + ".")).casefold()
    for option in options:
        if word == option or word in _NAMES.get(option, ()):
            return option, argument.strip(_EDGES)
    return None, ""
