"""A chat server that answers as the simulated LM does, or fills the schema of a request; a share of its replies is bad.

It speaks `/v1/chat/completions` and `/v1/models` of OpenAI's API (https://platform.openai.com/docs/api-reference/chat).
"""

import hashlib
import json
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Self

from dspy.lm15 import request_from_openai_chat

from experiments.world.simulated import SimulatedEngine
from tests.loopback import JsonHandler, Loopback

MODEL = "stand-in"
Json = dict[str, Any]
_READ = ("model", "messages", "temperature", "seed", "logprobs", "top_logprobs")
# Output fields of judges and of key facts, which the simulated LM has no skill for.
_FOREIGN = {"steps", "key_facts", "citation_accuracy", "correctness", "due", "quality"}
_RANKINGS = {"citation_accuracy", "correctness", "truthfulness", "bias", "conciseness"}  # if they are lists


class ChatServer:
    """Serves while its `with` block runs; `base` is the URL for `--api-base`, `sent` counts the faults.

    Which requests are answered how depends on the prompt, and how often the prompt came before, and not on the order in
    which threads ask.
    """

    def __init__(self, rate: float = 0.0):
        self.engine, self.rate, outer = SimulatedEngine(0), rate, self
        self.sent: Counter[str | None] = Counter()
        self._asked: Counter[str] = Counter()
        self._counting = threading.Lock()

        class Handler(JsonHandler):
            protocol_version = "HTTP/1.1"

            def get(self) -> None:
                self.reply(200, {"data": [{"id": MODEL, "object": "model", "max_model_len": 8192}]})

            def post(self) -> None:
                body = self.body()
                fault = outer.fault(json.dumps(body, sort_keys=True))
                try:
                    if fault is None:
                        self.reply(200, outer.completion(body))
                    else:
                        FAULTS[fault](self, outer.completion(body))
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True  # the client went away

        self._server = Loopback(Handler)
        self.base = self._server.base

    def fault(self, prompt: str) -> str | None:
        """Return how a request is answered badly; None if it is answered well."""
        with self._counting:
            self._asked[prompt] += 1
            digest = hashlib.sha256(f"{self._asked[prompt]}:{prompt}".encode()).digest()
            bad = int.from_bytes(digest[:4], "big") < self.rate * 2**32
            fault = list(FAULTS)[int.from_bytes(digest[4:8], "big") % len(FAULTS)] if bad else None
            self.sent[fault] += 1
        return fault

    def completion(self, body: Json) -> Json:
        """Return the good reply to a chat request."""
        schema = ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
        choice: Json = {"index": 0, "finish_reason": "stop"}
        usage: Json = {}
        if schema and _FOREIGN & schema.get("properties", {}).keys():
            digest = hashlib.sha256(json.dumps(body["messages"], sort_keys=True).encode()).digest()
            text = json.dumps(_filled(schema, schema, digest))
        else:
            reply = self.engine.complete(request_from_openai_chat({key: body[key] for key in _READ if key in body}))
            text = reply.message.text or ""
            usage = {"prompt_tokens": reply.usage.input_tokens, "completion_tokens": reply.usage.output_tokens}
            if body.get("logprobs") and reply.logprobs:
                choice["logprobs"] = {"content": [_logprob(token) for token in reply.logprobs]}
        choice["message"] = {"role": "assistant", "content": text}
        return {"id": "x", "object": "chat.completion", "model": MODEL, "choices": [choice], "usage": usage}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()


def _logprob(token: Any) -> Json:
    top = [{"token": item.token, "logprob": item.logprob, "bytes": None} for item in token.top]
    return {"token": token.token, "logprob": token.logprob, "bytes": None, "top_logprobs": top}


def _filled(schema: Json, root: Json, digest: bytes, name: str = "") -> Any:
    """Return a value of a JSON schema that depends on the prompt only; lists have two items, rankings two answers."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    if "properties" in schema:
        return {name: _filled(part, root, digest, name) for name, part in schema["properties"].items()}
    kind = schema.get("type")
    if kind == "array" and name in _RANKINGS:
        return [f"answer{number}: {digest[number] / 255:.2f}" for number in (1, 2)]
    if kind == "array":
        return [_filled(schema.get("items", {}), root, digest[number:]) for number in (1, 2)]
    text = f"The harbour of number {digest[0]} lies beside the market of number {digest[1]}."
    return {"number": digest[0] / 255, "integer": digest[0] % 2, "boolean": digest[0] % 2 == 0}.get(str(kind), text)


Fault = Callable[[JsonHandler, Json], None]


def _send(handler: JsonHandler, status: int, data: bytes, **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(data)


def _reset(handler: JsonHandler, reply: Json) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    raise ConnectionResetError


def _status(status: int, **headers: str) -> Fault:
    error = json.dumps({"error": {"message": "try again later"}}).encode()
    return lambda handler, reply: _send(handler, status, error, **headers)


def _content(content: str | None) -> Fault:
    def fault(handler: JsonHandler, reply: Json) -> None:
        reply["choices"][0].pop("logprobs", None)
        reply["choices"][0]["message"]["content"] = content
        handler.reply(200, reply)

    return fault


def _half(handler: JsonHandler, reply: Json) -> None:
    data = json.dumps(reply).encode()
    _send(handler, 200, data[: len(data) // 2])


def _closed_early(handler: JsonHandler, reply: Json) -> None:
    data = json.dumps(reply).encode()
    _send(handler, 200, data[: len(data) // 2], **{"Content-Length": str(len(data))})
    handler.close_connection = True


def _never(handler: JsonHandler, reply: Json) -> None:
    handler.rfile.read(1)  # until the client gives up and closes the connection
    handler.close_connection = True


FAULTS: dict[str, Fault] = {
    "connection reset": _reset,
    "429": _status(429),
    "429 with Retry-After": _status(429, Retry_After="1"),
    "500": _status(500),
    "503": _status(503),
    "empty body": lambda handler, reply: _send(handler, 200, b""),
    "HTML body": lambda handler, reply: _send(
        handler, 200, b"<html>Bad gateway</html>", **{"Content-Type": "text/html"}
    ),
    "truncated JSON": _half,
    "closed early": _closed_early,
    "no choices": lambda handler, reply: handler.reply(200, {**reply, "choices": []}),
    "null content": _content(None),
    "empty content": _content(""),
    # The reply itself is good.
    "wrong content type": lambda handler, reply: _send(
        handler, 200, json.dumps(reply).encode(), **{"Content-Type": "text/plain"}
    ),
    "no reply": _never,
    "junk text": _content("[[ ## sorry ## ]] I cannot ((("),
    "gigantic reply": _content("{" * 3_000_000),
}
