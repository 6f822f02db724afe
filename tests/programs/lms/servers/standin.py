"""Servers that stand in for real ones: one loopback server, its quirks as data, the simulated LM as its brain."""

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from dspy.lm15 import Config, Message, Request, Response

from experiments.world.dials import Dials, read_dials
from experiments.world.simulated import SimulatedEngine
from tests import loopback

MODEL = "lab/model"
THOUGHT = "Let me see what the passages say about this before I answer the question . " * 4  # 60 tokens


@dataclass(frozen=True)
class Quirks:
    """How one server deviates from OpenAI's API.

    Args:
        gets: JSON answers to GET by path; the list of models is at `<base>/models`.
        posts: JSON answers to POST by path, besides those of the chat API.
        owner: `owned_by` in the list of models.
        entry: Further keys of the model in that list.
        base: Path of the API.
        thinks: Whether the model thinks: "never", "hybrid" (can be turned off) or "always".
        off: Fields of a request, nested by dots, that turn a hybrid model's thinking off.
        thinking_at: A field of the message, or "tags" in the content, "closing tag" where the template opens it.
        logprobs: "top", "chosen" (without alternatives), "none" (in silence), "all" (those of the thinking too).
        most_logprobs: More are refused.
        refuses: Fields that are refused by name with status 400.
        ignores_schema: Whether a schema is ignored.
        null_content: Whether content is null, not empty, where there is none.
    """

    gets: Mapping[str, Any] = field(default_factory=dict)
    posts: Mapping[str, Any] = field(default_factory=dict)
    owner: str = "someone"
    entry: Mapping[str, Any] = field(default_factory=dict)
    base: str = "/v1"
    thinks: str = "never"
    off: Mapping[str, Any] = field(default_factory=dict)
    thinking_at: str = "reasoning_content"
    logprobs: str = "top"
    most_logprobs: int = 20
    refuses: tuple[str, ...] = ()
    ignores_schema: bool = False
    null_content: bool = False


def brain() -> SimulatedEngine:
    """Return the simulated LM of seed 0 that never writes a malformed reply."""
    return SimulatedEngine(0, Dials(**{**asdict(read_dials()), "form_malformed": 0.0}))


class StandIn(loopback.Loopback):
    """One server on loopback; `seen` holds the bodies of the chat requests."""

    def __init__(self, quirks: Quirks):
        self.quirks, self.seen, self._brain = quirks, [], brain()
        self.running = self.widest = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(loopback.JsonHandler):
            protocol_version = "HTTP/1.1"  # connections are kept
            disable_nagle_algorithm = True

            def get(self) -> None:
                self.reply(*outer.get(self.path))

            def post(self) -> None:
                self.reply(*outer.post(self.path, self.body()))

        super().__init__(Handler, quirks.base)
        self.api_base = self.base

    def get(self, path: str) -> tuple[int, Any]:
        if path == f"{self.quirks.base}/models":
            entry = {"id": MODEL, "object": "model", "owned_by": self.quirks.owner, **self.quirks.entry}
            return 200, {"object": "list", "data": [entry]}
        return (200, self.quirks.gets[path]) if path in self.quirks.gets else (404, {"error": "not found"})

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path in self.quirks.posts:
            return 200, self.quirks.posts[path]
        if path != f"{self.quirks.base}/chat/completions":
            return 404, {"error": "not found"}
        self.seen.append(body)
        for name in self.quirks.refuses:
            if name in body:
                return 400, {"error": {"message": f"Unknown parameter: '{name}'."}}
        if body.get("top_logprobs", 0) > self.quirks.most_logprobs:
            message = f"top_logprobs must be between 0 and {self.quirks.most_logprobs}"
            return 400, {"error": {"message": message}}
        with self._lock:
            self.running += 1
            self.widest = max(self.widest, self.running)
        try:
            return 200, self.completion(body)
        finally:
            with self._lock:
                self.running -= 1

    def completion(self, body: dict[str, Any]) -> dict[str, Any]:
        reply = self._brain.complete(_request(body))
        answer, limit = reply.message.text, body.get("max_tokens") or body.get("max_completion_tokens") or 10**6
        thought = _pieces(THOUGHT) if self._thinks_about(body) else []
        written, thinking = _pieces(answer), "".join(thought[:limit])
        kept = written[: max(0, limit - len(thought))]
        choice = {"index": 0, "finish_reason": "length" if len(thought) + len(written) > limit else "stop"}
        choice["message"] = self._message(thinking, "".join(kept), closed=limit > len(thought))
        if body.get("logprobs"):
            choice["logprobs"] = self._logprobs(reply, thought[:limit], kept)
        usage = {"prompt_tokens": reply.usage.input_tokens, "completion_tokens": len(thought[:limit]) + len(kept)}
        return {"id": "x", "object": "chat.completion", "model": MODEL, "choices": [choice], "usage": usage}

    def _thinks_about(self, body: dict[str, Any]) -> bool:
        if self.quirks.thinks != "hybrid":
            return self.quirks.thinks == "always"
        return not any(_nested(body, keys) == value for keys, value in self.quirks.off.items())

    def _message(self, thinking: str, answer: str, *, closed: bool) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": answer}
        if self.quirks.thinking_at in ("tags", "closing tag"):
            start = "<think>\n" if self.quirks.thinking_at == "tags" else ""
            if thinking:
                message["content"] = f"{start}{thinking}" + (f"\n</think>\n\n{answer}" if closed else "")
        elif thinking:
            message[self.quirks.thinking_at] = thinking
        if self.quirks.null_content:
            message["content"] = message["content"] or None
        return message

    def _logprobs(self, reply: Response, thought: list[str], kept: list[str]) -> dict[str, Any] | None:
        if self.quirks.logprobs == "none":
            return None
        tokens = [_token(piece) for piece in thought] if self.quirks.logprobs == "all" else []
        if tokens and kept:
            tokens.append(_token("</think>\n\n"))
        for piece, token in zip(kept, reply.logprobs or (), strict=False):
            top = {other.token: other.logprob for other in token.top} if self.quirks.logprobs != "chosen" else {}
            tokens.append(_token(piece, token.logprob, top))
        return {"content": tokens}


def _request(body: dict[str, Any]) -> Request:
    system = "".join(turn["content"] for turn in body["messages"] if turn["role"] == "system")
    turns = [turn for turn in body["messages"] if turn["role"] != "system"]
    config = Config(temperature=body.get("temperature"), seed=body.get("seed"), logprobs=body.get("top_logprobs"))
    messages = tuple(
        (Message.assistant if turn["role"] == "assistant" else Message.user)(turn["content"]) for turn in turns
    )
    return Request(model=MODEL, messages=messages, system=system or None, config=config)


def _pieces(text: str) -> list[str]:
    return [piece if number == 0 else f" {piece}" for number, piece in enumerate(text.split(" ")) if piece]


def _nested(body: Any, keys: str) -> Any:
    for key in keys.split("."):
        body = body.get(key) if isinstance(body, dict) else None
    return body


def _token(text: str, logprob: float = -0.1, top: Mapping[str, float] | None = None) -> dict[str, Any]:
    alternatives = [{"token": token, "logprob": value, "bytes": None} for token, value in (top or {}).items()]
    return {"token": text, "logprob": logprob, "bytes": None, "top_logprobs": alternatives}
