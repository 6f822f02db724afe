"""A loopback server that answers every call with one text in each field, or refuses; it can echo the headers it got."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.conftest import load_module

loopback = load_module(Path(__file__).parents[2] / "loopback.py")

Text = Callable[[dict[str, str]], str]  # what to send, from the headers of the request


def _field(schema: dict[str, Any], text: str) -> Any:
    kinds = {"boolean": True, "number": 0.5, "integer": 1, "array": [text], "null": None}
    return kinds.get(schema.get("type", "string"), text)


def _reply(request: dict[str, Any], text: str) -> str:
    schema = (request.get("response_format") or {}).get("json_schema", {}).get("schema")
    if schema is None:
        return text
    return json.dumps({name: _field(field, text) for name, field in schema["properties"].items()})


@contextlib.contextmanager
def hostile_server(text: Text, *, status: int = 200, models: int | None = None, schema: bool = True) -> Iterator[str]:
    """Run the server; yield its host and port.

    Args:
        text: Goes into every field of a reply, or into the error.
        status: Other than 200, the calls are refused with the text as the message.
        models: Status of the list of models, which is then none; None gives the list.
        schema: Whether a reply follows the schema.
    """

    class Handler(loopback.JsonHandler):
        def post(self) -> None:
            request = self.body()
            written = text(dict(self.headers))
            if status != 200:
                self.reply(status, {"error": {"message": written, "type": written, "code": written}})
                return
            choice = {"index": 0, "finish_reason": "stop"}
            choice["message"] = {
                "role": "assistant",
                "content": _reply(request, written) if schema else written,
                "note": written,
            }
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            self.reply(
                200, {"id": written, "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
            )

        def get(self) -> None:
            self.reply(models or 200, {"data": [{"id": "m", "max_model_len": 8192}]} if models is None else {})

    server = loopback.Loopback(Handler)
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        server.close()
