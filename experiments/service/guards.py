"""What is checked of every request before it is read: who sends it, from where, and how large it is.

Any page in a browser can send requests to a server on the loopback address. So without a token only requests are
answered whose Host header names this server (against DNS rebinding), and none that a page of another origin sent.
"""

import asyncio
import hmac
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from experiments.service.answering import Failure
from signatures.common.logs import event

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_BODY_SECONDS = 30.0  # that the rest of a body may keep a request waiting
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_ONCE = ("host", "origin", "authorization")
OPEN = {"/", "/page.css", "/page.js", "/health", "/ready"}  # need no token
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Guards:
    """Refuses requests, and adds headers to responses.

    Args:
        application: Answers the others.
        token: That requests must state as `Authorization: Bearer ...`; None for none.
        hosts: Names that the Host header may have, without port; None for any.
        body_bytes: Most bytes of a request.
    """

    def __init__(self, application: Application, *, token: str | None, hosts: tuple[str, ...] | None, body_bytes: int):
        self._application, self._token, self._hosts, self._body_bytes = application, token, hosts, body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        send = _with_headers(send)
        if failure := self._refuse(scope["path"], pairs):
            log_refusal(failure, scope["path"])
            await _respond(send, failure)
            return
        body = _Body(receive, send, self._body_bytes)
        try:
            await self._application(scope, body.receive, body.send)
        except Exception:
            if body.failure is None:
                raise
        await body.answer(scope["path"])

    def _refuse(self, path: str, pairs: list[tuple[str, str]]) -> Failure | None:
        headers, names = dict(pairs), [name for name, _ in pairs]
        if any(names.count(name) > 1 for name in _ONCE):
            return Failure(400, "invalid_request", "A header is repeated that may come once.")
        host = headers.get("host", "")
        if self._hosts is not None and _without_port(host) not in self._hosts:
            said = "Without a token this server answers to names of this machine only: set one to be behind a proxy."
            return Failure(421, "invalid_request", said)
        origin = headers.get("origin")
        if self._token is None and origin is not None and origin.partition("://")[2] != host:
            return Failure(403, "invalid_request", "Pages of other sites may not send requests to this server.")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._body_bytes:
            return _too_large(self._body_bytes)
        if self._token is None or path in OPEN or path.endswith(".js"):
            return None
        kind, _, stated = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and hmac.compare_digest(stated.strip().encode(), self._token.encode()):
            return None
        return Failure(401, "unauthorized", "This server needs a token: send Authorization: Bearer TOKEN.")


def _without_port(host: str) -> str:
    return host.rpartition(":")[0].lower() if host.rpartition(":")[2].isdecimal() else host.lower()


class _Refused(Exception):
    pass


class _Body:
    """Counts the bytes of a body, because a length need not be stated, or be true; more than `most` are refused.

    `failure` is None until a body is refused.
    """

    def __init__(self, receive: Receive, send: Send, most: int):
        self._receive, self._send, self._most = receive, send, most
        self._left, self._begun, self._whole = most, False, False
        self.failure: Failure | None = None

    async def receive(self) -> MutableMapping[str, Any]:
        """Return the next message, or raise an error after too many bytes, or if the rest of a body does not come."""
        try:
            async with asyncio.timeout(None if self._whole else _BODY_SECONDS) as limit:
                message = await self._receive()
        except TimeoutError:
            if not limit.expired():
                raise
            self.failure = Failure(408, "timeout", "The rest of the request did not come in time.")
            raise _Refused from None
        self._whole = not message.get("more_body", False)
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            self.failure = _too_large(self._most)
            raise _Refused
        return message

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send a message; nothing of what the application says of a body that is refused."""
        if self.failure is None:
            self._begun = True
            await self._send(message)

    async def answer(self, path: str) -> None:
        """Send the refusal, if the body is refused."""
        if self.failure is not None and not self._begun:
            log_refusal(self.failure, path)
            await _respond(self._send, self.failure)


def log_refusal(failure: Failure, path: str) -> None:
    """Write the line of a request that is refused, without its texts."""
    event("refused", level=logging.WARNING, status=failure.status, type=failure.type, path=path[:200])


def _too_large(most: int) -> Failure:
    return Failure(413, "too_large", f"A request may have at most {most:,} bytes.")


def _with_headers(send: Send) -> Send:
    added = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *added]}
        await send(message)

    return sending


async def _respond(send: Send, failure: Failure) -> None:
    body = json.dumps(failure.as_dict()).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
    headers |= failure.headers
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": failure.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
