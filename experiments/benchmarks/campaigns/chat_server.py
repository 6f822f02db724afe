"""A chat server on loopback for campaigns: answers as the simulated LM does, or fills the schema of a request.

It speaks `/v1/chat/completions` and `/v1/models` of OpenAI's API (https://platform.openai.com/docs/api-reference/chat).
A subclass may answer some requests badly.
"""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from dspy.lm15 import request_from_openai_chat

from experiments.world.simulated import SimulatedEngine

CONTEXT_SIZE = 8192
MODEL = "stand-in"
_READ = ("model", "messages", "temperature", "seed", "logprobs", "top_logprobs")
Json = dict[str, Any]


class ChatServer:
    """Serves while its `with` block runs; `base` is the URL for `--api-base`.

    Args:
        seed: Seed of the simulated LM.
    """

    def __init__(self, seed: int = 0):
        self.engine = SimulatedEngine(seed)
        self.requests = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments: Any) -> None:
                pass

            def do_GET(self) -> None:
                known = self.path.endswith("/models")
                models = {"object": "list", "data": [{"id": MODEL, "object": "model", "max_model_len": CONTEXT_SIZE}]}
                send_json(self, 200 if known else 404, models if known else {"error": {"message": "not found"}})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer._lock:
                    outer.requests += 1
                    number = outer.requests
                try:
                    outer.answer(self, body, number)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True  # the client went away

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 512  # connections that wait to be accepted

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Say nothing: a killed client resets its connections."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def answer(self, handler: BaseHTTPRequestHandler, body: Json, number: int) -> None:
        """Answer one chat request; `number` counts them from 1."""
        send_json(handler, 200, self.completion(body))

    def completion(self, body: Json) -> Json:
        """Return the reply to a chat request."""
        schema = ((body.get("response_format") or {}).get("json_schema") or {}).get("schema")
        request = request_from_openai_chat({name: body[name] for name in _READ if name in body})
        choice: Json = {"index": 0, "finish_reason": "stop"}
        usage: Json = {}
        if schema and not _simulated(schema):
            text = json.dumps(_filled(schema, schema, _digest(body)))
        else:
            reply = self.engine.complete(request)
            text, usage = reply.message.text or "", _usage(reply)
            if body.get("logprobs") and reply.logprobs:
                choice["logprobs"] = {"content": [_logprob(token) for token in reply.logprobs]}
        choice["message"] = {"role": "assistant", "content": text}
        return {"id": "x", "object": "chat.completion", "model": MODEL, "choices": [choice], "usage": usage}

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True, kwargs={"poll_interval": 0.05}).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def send_json(handler: BaseHTTPRequestHandler, status: int, value: Any, **headers: str) -> None:
    """Send a JSON reply with its length."""
    send(handler, status, json.dumps(value).encode(), "application/json", **headers)


def send(handler: BaseHTTPRequestHandler, status: int, data: bytes, content_type: str, **headers: str) -> None:
    """Send a reply with its length; underscores in the names of headers become hyphens."""
    handler.send_response(status)
    for name, value in {"Content-Type": content_type, "Content-Length": str(len(data)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(data)


def _usage(reply: Any) -> Json:
    sent, written = reply.usage.input_tokens, reply.usage.output_tokens
    return {"prompt_tokens": sent, "completion_tokens": written, "total_tokens": sent + written}


def _logprob(token: Any) -> Json:
    top = [{"token": item.token, "logprob": item.logprob, "bytes": None} for item in token.top]
    return {"token": token.token, "logprob": token.logprob, "bytes": None, "top_logprobs": top}


# Output fields of judges and of key facts, which the simulated LM has no skill for.
_FOREIGN = {"steps", "key_facts", "citation_accuracy", "correctness", "due", "quality"}
_RANKINGS = {"citation_accuracy", "correctness", "truthfulness", "bias", "conciseness"}  # if they are lists


def _simulated(schema: Json) -> bool:
    return not _FOREIGN & schema.get("properties", {}).keys()


def _digest(body: Json) -> bytes:
    return hashlib.sha256(json.dumps(body["messages"], sort_keys=True).encode()).digest()


def _filled(schema: Json, root: Json, digest: bytes) -> Any:
    """Return a value of a JSON schema that depends on the prompt only; lists have two items, rankings two answers."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    if "properties" in schema:
        return {
            name: _ranking(digest) if name in _RANKINGS and part.get("type") == "array" else _filled(part, root, digest)
            for name, part in schema["properties"].items()
        }
    if schema.get("type") == "array":
        return [_filled(schema.get("items", {}), root, digest[number:]) for number in (1, 2)]
    if schema.get("type") in ("number", "integer"):
        return digest[0] % 2 if schema["type"] == "integer" else digest[0] / 255
    if schema.get("type") == "boolean":
        return digest[0] % 2 == 0
    return f"The harbour of number {digest[0]} lies beside the market of number {digest[1]}."


def _ranking(digest: bytes) -> list[str]:
    return [f"answer{number}: {digest[number] / 255:.2f}" for number in (1, 2)]
