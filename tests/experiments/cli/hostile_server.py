"""A loopback server that answers every call with one text in each field, or refuses; it can echo the headers it got."""

import base64
import contextlib
import html
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

from tests.conftest import load_module

loopback = load_module(Path(__file__).parents[2] / "loopback.py")

KEY = "sk-live-4f9a/8b+7c&6d\"5e<4f'3a\\2b7c"
FORMS: dict[str, Callable[[str], str]] = {  # in which a server may send back what it got
    "plain": str,
    "html": html.escape,
    "html decimal": lambda text: "".join(f"&#{ord(sign)};" for sign in text),
    "html hexadecimal": lambda text: "".join(sign if sign.isalnum() else f"&#x{ord(sign):X};" for sign in text),
    "html by name": lambda text: html.escape(text).replace("/", "&sol;").replace("+", "&plus;"),
    "repr": lambda text: repr(text)[1:-1],
    "repr of repr": lambda text: repr(repr(text))[1:-1],
    "json": lambda text: json.dumps(text)[1:-1].replace("/", r"\/"),
    "json in json": lambda text: json.dumps(json.dumps(text)),
    "json of unicode": lambda text: "".join(sign if sign.isalnum() else f"\\u{ord(sign):04x}" for sign in text),
    "hexadecimal": lambda text: "".join(f"\\x{ord(sign):02x}" for sign in text),
    "octal": lambda text: "".join(f"\\{ord(sign):03o}" for sign in text),
    "long unicode": lambda text: "".join(f"\\U{ord(sign):08X}" for sign in text),
    "unicode in braces": lambda text: "".join(f"\\u{{{ord(sign):x}}}" for sign in text),
    "bytes": lambda text: text.encode().hex(),
    "bytes with spaces": lambda text: text.encode().hex(" "),
    "url": lambda text: quote(text, safe=""),
    "url of scripts": lambda text: "".join(f"%u{ord(sign):04X}" for sign in text),
    "url in lower case": lambda text: "".join(s if s.isalnum() else f"%{ord(s):02x}" for s in text),
    "url in url": lambda text: quote(quote(text, safe=""), safe=""),
    "form": quote_plus,
    "url in html": lambda text: "".join(f"&#{ord(sign)};" for sign in quote(text, safe="")),
    "html in json": lambda text: json.dumps(html.escape(text).replace("&", "\\u0026")),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 with a user": lambda text: base64.b64encode(f"ann:{text}".encode()).decode(),
    "base64 for urls": lambda text: base64.urlsafe_b64encode(f"me:{text}".encode()).decode(),
}


def every_form(headers: dict[str, str]) -> str:
    """Return an answer with the key of the header in every form."""
    key = headers["Authorization"].removeprefix("Bearer ")
    return "Ansa Merrow " + " ".join(f"({name}: {form(key)})" for name, form in FORMS.items())


def leaked(text: str) -> list[str]:
    """Return the forms of `KEY` in a text, also where the text is JSON."""
    spelled = {name: form(KEY) for name, form in FORMS.items()}
    in_json = {name: json.dumps(form)[1:-1] for name, form in spelled.items()}
    return [name for name, form in spelled.items() if form in text or in_json[name] in text or "5e<4f" in text]


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
