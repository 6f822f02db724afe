"""An OpenAI-compatible server on loopback in a process of its own, for measurements: it takes little time of its own.

    python -m experiments.benchmarks.service_load.loopback 0.2

prints its base URL as the first line and serves until its standard input is closed.

A reply depends on the prompt alone, and makes every program take its usual steps. Fields are those of the JSON schema.
Their values are made up, except for what GenGround needs to go on: new sub-questions until `HOPS` hops are settled, and
evidence that stands in a passage, for half of the calls.
"""

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from typing import Any

HOPS = 2
_SECTION = re.compile(r"^\[\[ ## (\w+) ## \]\]\s*$", re.MULTILINE)
_FIRST_PASSAGE = re.compile(r"^\[1\] (?:[^:\n]*: )?(.+)$", re.MULTILINE)
_STEP = "Step {} towards this: "
_STEPS = re.compile(r"Step (\d+) towards this")
_YES = {"token": "yes", "logprob": -0.1, "bytes": None}
_NO = {"token": "no", "logprob": -2.4, "bytes": None}


def completion(body: dict[str, Any]) -> dict[str, Any]:
    """Return the reply to a chat request as an OpenAI-compatible server gives it."""
    messages = [str(message["content"]) for message in body["messages"]]
    content = _content(messages[-1], body.get("response_format") or {})
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


def _content(prompt: str, response_format: dict[str, Any]) -> str:
    properties = (response_format.get("json_schema") or {}).get("schema", {}).get("properties")
    if not properties:
        return "yes"
    inputs = _inputs(prompt)
    return json.dumps({name: _value(name, field.get("type", "string"), inputs) for name, field in properties.items()})


def _inputs(prompt: str) -> dict[str, str]:
    """Return the input fields of a prompt."""
    parts = _SECTION.split(prompt)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _value(name: str, kind: str, inputs: dict[str, str]) -> Any:
    question = inputs.get("question", "").strip().splitlines()[0] if inputs.get("question", "").strip() else "What?"
    settled = max(map(int, _STEPS.findall(inputs.get("hops", ""))), default=0)
    if name == "finished":
        return settled >= HOPS
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
    found = _FIRST_PASSAGE.search(passages)
    return re.split(r"(?<=[.!?]) ", found[1])[0] if found else ""


def _number(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "replace")) % 1000


_END = b"\r\n\r\n"


class Connection(asyncio.Protocol):
    """One connection: requests one after another, each answered `latency` seconds after it has come in whole."""

    def __init__(self, latency: float):
        self._latency = latency
        self._received = bytearray()
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        """Keep the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer the requests that are whole."""
        self._received += data
        while (head_end := self._received.find(_END)) >= 0:
            lines = bytes(self._received[:head_end]).split(b"\r\n")
            length = next((int(line[15:]) for line in lines if line[:15].lower() == b"content-length:"), 0)
            end = head_end + len(_END) + length
            if len(self._received) < end:
                return
            body = bytes(self._received[head_end + len(_END) : end])
            del self._received[:end]
            method, path, _ = lines[0].decode("latin-1").split(" ", 2)
            self._answer(method, path, body)

    def _answer(self, method: str, path: str, body: bytes) -> None:
        if method == "POST":
            asyncio.get_running_loop().call_later(self._latency, self._complete, body)
        elif path.endswith("/models"):
            self._send(200, {"object": "list", "data": [{"id": "loopback", "object": "model", "owned_by": "loopback"}]})
        else:
            self._send(404, {"error": {"message": "not found"}})

    def _complete(self, body: bytes) -> None:
        self._send(200, completion(json.loads(body)))

    def _send(self, status: int, payload: Any) -> None:
        content = json.dumps(payload).encode()
        head = f"HTTP/1.1 {status} OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        if not self._transport.is_closing():
            self._transport.write(head.encode() + content)


async def serve(latency: float) -> None:
    """Serve on a free port until standard input is closed."""
    loop = asyncio.get_running_loop()
    http = await loop.create_server(lambda: Connection(latency), "127.0.0.1", 0, backlog=1024)
    print(f"http://127.0.0.1:{http.sockets[0].getsockname()[1]}/v1", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    http.close()


@contextlib.contextmanager
def server(latency: float) -> Iterator[str]:
    """Run a server in a process of its own and return its base URL.

    Args:
        latency: Seconds from a request to its reply.
    """
    command = [sys.executable, "-m", "experiments.benchmarks.service_load.loopback", str(latency)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
