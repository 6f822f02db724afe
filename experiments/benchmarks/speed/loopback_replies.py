"""Replies of the loopback server: they fit what a prompt asks for, and make every program take its usual steps.

A reply depends on the prompt alone. Fields are those of the JSON schema, or those that the end of the prompt names, in
the form that it asks for: our own adapters and those of DSPy. Their values are made up, except for what GenGround needs
to go on: new sub-questions until `HOPS` hops are settled, and evidence that stands in a passage, for half of the calls.
"""

import json
import re
import zlib
from typing import Any

HOPS = 2
_SECTION = re.compile(r"^\[\[ ## (\w+) ## \]\]\s*$", re.MULTILINE)
_NAMED = re.compile(r"`(?:\[\[ ## )?(\w+)(?: ## \]\])?`")
_OUTPUT = re.compile(r"^\d+\. `(\w+)` \((\w+)\)", re.MULTILINE)  # of DSPy's system messages
_FIRST_PASSAGE = re.compile(r"^\[1\] (?:[^:\n]*: )?(.+)$", re.MULTILINE)
_STEP = "Step {} towards this: "
_YES = {"token": "yes", "logprob": -0.1, "bytes": None}
_NO = {"token": "no", "logprob": -2.4, "bytes": None}


def completion(body: dict[str, Any]) -> dict[str, Any]:
    """Return the reply to a chat request as an OpenAI-compatible server gives it."""
    messages = [str(message["content"]) for message in body["messages"]]
    content = _content(messages, body.get("response_format") or {})
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
    choice["message"] = {"role": "assistant", "content": content}
    if body.get("logprobs"):
        choice["logprobs"] = {"content": [{**_YES, "top_logprobs": [_YES, _NO]}]}
    read, written = sum(map(len, messages)) // 4 + 1, len(content) // 4 + 1
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body.get("model"),
        "choices": [choice],
        "usage": usage,
    }


def _content(messages: list[str], response_format: dict[str, Any]) -> str:
    prompt = messages[-1]
    properties = (response_format.get("json_schema") or {}).get("schema", {}).get("properties")
    last = prompt.rstrip().rpartition("\n")[2]
    names = list(properties) if properties else [name for name in _NAMED.findall(last) if name != "completed"]
    if not names:
        return "yes"
    types = dict(_OUTPUT.findall(messages[0].partition("output fields are:")[2]))
    kinds = {name: _kind((properties or {}).get(name), types.get(name)) for name in names}
    values = {name: _value(name, kinds[name], _inputs(prompt)) for name in names}
    if "[[ ## " in last:
        return "\n\n".join(
            [f"[[ ## {name} ## ]]\n{value}" for name, value in values.items()] + ["[[ ## completed ## ]]"]
        )
    return json.dumps(values)


def _kind(schema: dict[str, Any] | None, type_name: str | None) -> str:
    """Return the type of a field, as JSON schema names it."""
    if schema is not None:
        return str(schema.get("type", "string"))
    return {"bool": "boolean", "int": "integer", "float": "number", "list": "array"}.get(type_name or "str", "string")


def _inputs(prompt: str) -> dict[str, str]:
    """Return the input fields of a prompt."""
    parts = _SECTION.split(prompt)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _value(name: str, kind: str, inputs: dict[str, str]) -> Any:
    question = inputs.get("question", "").strip().splitlines()[0] if inputs.get("question", "").strip() else "What?"
    settled = inputs.get("hops", "").count(_STEP[:5])
    if name == "finished":
        return settled >= HOPS or kind != "boolean"
    if name == "sub_question":
        return _STEP.format(settled + 1) + question
    if name == "evidence":
        return _evidence(inputs)
    made_up = {"boolean": True, "integer": 1, "number": 0.5, "array": ["one"], "object": {}}
    return made_up.get(kind, f"Answer {_number(question)}")


def _evidence(inputs: dict[str, str]) -> str:
    """Return the first sentence of the first passage for half of the prompts, else nothing."""
    passages = inputs.get("passages", "").strip()
    if _number(passages + inputs.get("sub_question", "")) % 2:
        return ""
    if passages.startswith("[{"):  # as DSPy's adapters write them
        text = json.loads(passages)[0]["text"]
    else:
        found = _FIRST_PASSAGE.search(passages)
        text = found[1] if found else ""
    return re.split(r"(?<=[.!?]) ", text)[0]


def _number(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "replace")) % 1000
