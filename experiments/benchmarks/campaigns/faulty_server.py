"""A chat server that answers a share of its requests badly, in every way that servers and the network are known to."""

import hashlib
import json
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

from experiments.benchmarks.campaigns.chat_server import ChatServer, Json, send, send_json

GIGANTIC = 3_000_000  # characters
_JSON = "application/json"


class FaultyServer(ChatServer):
    """Answers badly as long as `rate` is above 0.

    Which requests are answered how depends on the seed, the prompt, and how often the prompt came before, and not on
    the order in which threads ask.

    Args:
        seed: Seed of the simulated LM and of the faults.
        rate: Share of requests that are answered badly, in [0, 1].
        slow: Seconds that a slow reply takes; longer than the time limit of the client.
    """

    def __init__(self, seed: int = 0, *, rate: float, slow: float):
        super().__init__(seed)
        self.seed, self.rate, self.slow = seed, rate, slow
        self.sent: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()
        self._counting = threading.Lock()

    def answer(self, handler: BaseHTTPRequestHandler, body: Json, number: int) -> None:
        """Answer one chat request, well or badly."""
        fault = self._fault(body)
        with self._counting:
            self.sent[fault or "none"] += 1
        if fault is None:
            super().answer(handler, body, number)
        else:
            FAULTS[fault](self, handler, body)

    def _fault(self, body: Json) -> str | None:
        prompt = json.dumps(body, sort_keys=True)
        with self._counting:
            self._asked[prompt] += 1
            times = self._asked[prompt]
        digest = hashlib.sha256(f"{self.seed}:{times}:{prompt}".encode()).digest()
        if int.from_bytes(digest[:4], "big") >= self.rate * 2**32:
            return None
        return list(FAULTS)[int.from_bytes(digest[4:8], "big") % len(FAULTS)]


def _reset(server: FaultyServer, handler: BaseHTTPRequestHandler, body: Json) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    raise ConnectionResetError


def _status(status: int, **headers: str) -> Callable[[FaultyServer, BaseHTTPRequestHandler, Json], None]:
    def fault(server: FaultyServer, handler: BaseHTTPRequestHandler, body: Json) -> None:
        send_json(handler, status, {"error": {"message": "try again later"}}, **headers)

    return fault


def _body(data: bytes, content_type: str = _JSON) -> Callable[[FaultyServer, BaseHTTPRequestHandler, Json], None]:
    def fault(server: FaultyServer, handler: BaseHTTPRequestHandler, body: Json) -> None:
        send(handler, 200, data, content_type)

    return fault


def _content(content: str | None) -> Callable[[FaultyServer, BaseHTTPRequestHandler, Json], None]:
    def fault(server: FaultyServer, handler: BaseHTTPRequestHandler, body: Json) -> None:
        reply = server.completion(body)
        reply["choices"][0].pop("logprobs", None)
        reply["choices"][0]["message"]["content"] = content
        send_json(handler, 200, reply)

    return fault


def _cut(server: FaultyServer, handler: BaseHTTPRequestHandler, body: Json) -> None:
    data = json.dumps(server.completion(body)).encode()
    send(handler, 200, data[: len(data) // 2], _JSON)


def _closed_early(server: FaultyServer, handler: BaseHTTPRequestHandler, body: Json) -> None:
    data = json.dumps(server.completion(body)).encode()
    send(handler, 200, data[: len(data) // 2], _JSON, Content_Length=str(len(data)))
    handler.close_connection = True


def _no_choices(server: FaultyServer, handler: BaseHTTPRequestHandler, body: Json) -> None:
    send_json(handler, 200, {**server.completion(body), "choices": []})


def _other_type(server: FaultyServer, handler: BaseHTTPRequestHandler, body: Json) -> None:
    send(handler, 200, json.dumps(server.completion(body)).encode(), "text/plain")


def _slow(server: FaultyServer, handler: BaseHTTPRequestHandler, body: Json) -> None:
    time.sleep(server.slow)
    send_json(handler, 200, server.completion(body))


FAULTS: dict[str, Callable[[Any, BaseHTTPRequestHandler, Json], None]] = {
    "connection reset": _reset,
    "429": _status(429),
    "429 with Retry-After": _status(429, Retry_After="1"),
    "500": _status(500),
    "503": _status(503),
    "empty body": _body(b""),
    "HTML body": _body(b"<html><body>Bad gateway</body></html>", "text/html"),
    "truncated JSON": _cut,
    "closed early": _closed_early,
    "no choices": _no_choices,
    "null content": _content(None),
    "empty content": _content(""),
    "wrong content type": _other_type,  # the reply itself is good
    "slow reply": _slow,
    "junk text": _content("[[ ## sorry ## ]] I cannot ((("),
    "gigantic reply": _content("{" * GIGANTIC),
}
