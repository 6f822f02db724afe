"""Answers in the form of OpenAI's chat completions.

The content of the message is the long answer with its marks, if the program writes one, else the short answer; hops are
sent as reasoning (`reasoning_content`, as vLLM and others call it); cited passages with a URL are annotations of the
kind `url_citation`; and `verihop` has everything that `/v1/answers` returns.
"""

import json
import time
from collections.abc import AsyncIterator
from typing import Any

from experiments.analysis.unreadable import unread
from experiments.service.answering import Event

DONE = "data: [DONE]\n\n"


def completion(answer: dict[str, Any], model: str) -> dict[str, Any]:
    """Return a chat completion of an answer of `/v1/answers`."""
    message = {
        "role": "assistant",
        "content": _content(answer),
        "reasoning_content": "".join(_reasoning(number, hop) for number, hop in enumerate(answer["hops"], start=1)),
        "annotations": _annotations(answer),
    }
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    head = _head(answer["id"], model, "chat.completion")
    return {**head, "choices": [choice], "usage": _usage(answer), "verihop": answer}


async def chunks(events: AsyncIterator[Event], model: str, *, usage: bool) -> AsyncIterator[str]:
    """Yield the events of an answer as those of a streamed chat completion; an error ends it without `[DONE]`."""
    id = ""
    async for event in events:
        if event.kind == "started":
            if not id:
                id = event.data["id"]
                yield _chunk(id, model, {"role": "assistant", "content": ""})
        elif event.kind == "hop":
            yield _chunk(id, model, {"reasoning_content": _reasoning(event.data["number"], event.data["hop"])})
        elif event.kind == "answer":
            answer = event.data
            yield _chunk(id, model, {"content": _content(answer), "annotations": _annotations(answer)}, verihop=answer)
            yield _chunk(id, model, {}, finish_reason="stop")
            if usage:
                yield _data({**_head(id, model, "chat.completion.chunk"), "choices": [], "usage": _usage(answer)})
            yield DONE
        else:
            yield _data(event.data)


def _head(id: str, model: str, kind: str) -> dict[str, Any]:
    return {"id": id, "object": kind, "created": int(time.time()), "model": model}


def _chunk(id: str, model: str, delta: dict[str, Any], finish_reason: str | None = None, **more: Any) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
    return _data({**_head(id, model, "chat.completion.chunk"), "choices": [choice], **more})


def _data(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value)}\n\n"


def _content(answer: dict[str, Any]) -> str:
    none = "No answer was found in the passages."
    if unread(answer["answer"], answer["cost"]):
        none = "No answer: a reply of the language model could not be read."
    return answer["response"] or answer["answer"] or none


def _reasoning(number: int, hop: dict[str, Any]) -> str:
    return f"{number}. {hop['question']}\n" + (f"   {hop['answer']}\n" if hop["answer"] else "")


def _annotations(answer: dict[str, Any]) -> list[dict[str, Any]]:
    cited = [passage for passage in answer["passages"] if passage["id"] in answer["citations"]]
    return [
        {"type": "url_citation", "url_citation": {"url": passage["url"], "title": passage["title"]}}
        for passage in cited
        if isinstance(passage.get("url"), str) and passage["url"].startswith(("http://", "https://"))
    ]


def _usage(answer: dict[str, Any]) -> dict[str, int]:
    prompt, completion = int(answer["cost"]["prompt_tokens"]), int(answer["cost"]["completion_tokens"])
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
