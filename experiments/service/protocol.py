"""HTTP connections with limits that uvicorn lacks: their number, and the size and time of what comes beside bodies."""

import asyncio
import http
import json
import logging
import math
from typing import Any

from experiments.service.failures import Failure
from experiments.service.waiting import Waiting
from signatures.common.logs import event

HEAD_BYTES = 1 << 16
HEAD_FIELDS = 256
HEAD_SECONDS = 30.0
READ_BYTES = 1 << 16  # that a client reads in READ_SECONDS at least: what it has not read is held in memory
READ_SECONDS = 30.0
AT_ONCE = 16  # requests of a connection that wait for the answers to those before them
_PIECE = 1 << 9  # bytes that are parsed at a time; so many of them may be counted for a head that are not its own
_LENGTHS = (b"content-length", b"transfer-encoding")
_SAID = 60.0  # seconds between two events that say the same
_TOO_LARGE = Failure(431, "too_large", f"The headers of a request may have at most {HEAD_BYTES:,} bytes.")
_FIELDS = Failure(431, "too_large", f"A request may have at most {HEAD_FIELDS} headers.")
_NOT_HTTP = Failure(400, "invalid_request", "This is not a request of HTTP/1.1.")
_TOO_MANY = Failure(503, "queue_full", "Too many connections are open. Ask again in a few seconds.")


def limited_http(connections: int) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with these limits.

    Args:
        connections: That may be open at a time. When there is one more, one that waits for its client is closed, see
            `Waiting`; if none does, the new one is answered with status 503.
    """
    import httptools
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    waiting: Waiting[Any] = Waiting()
    said = -math.inf

    class LimitedProtocol(HttpToolsProtocol):
        """Closes connections that are too many, and those whose head is too large, unreadable or does not come.

        A connection may be closed for another one while it waits for its client: it has no whole request to answer, or
        the client does not read; and while it has several requests at once, which only few clients send.
        """

        def connection_made(self, transport: Any) -> None:
            """Make room, and wait for a head."""
            super().connection_made(transport)
            self._beside = self._piece = 0
            self._begun: Any = None
            self._refused = self._in_head = self._begun_before = False
            self._late: asyncio.TimerHandle | None = None
            self._unread: asyncio.TimerHandle | None = None
            if len(self.connections) > connections:
                self._say_full()
                if (other := waiting.first()) is None:
                    self._refuse(_TOO_MANY)
                    return
                waiting.remove(other)
                other.transport.abort()  # to close it would wait for a client that does not read
            self._await_head()
            waiting.add(self, self.client)

        def connection_lost(self, exc: Exception | None) -> None:
            """Wait no longer."""
            waiting.remove(self)
            self._stop_clock()
            self._stop_reading_clock()
            if self._begun is not None and not self._begun.response_complete:
                self._begun.disconnected = True  # uvicorn tells only the last of several requests
                self._begun.message_event.set()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            """Count bytes before they are parsed, except those of bodies."""
            if self._late is None and self._free():
                self._await_head()
            begin = 0
            while begin < len(data) and not (self._refused or self.transport.is_closing()):
                if self._beside >= HEAD_BYTES:
                    self._refuse(_TOO_LARGE)
                    break
                if len(self.pipeline) >= AT_ONCE and self._answering():
                    self._refuse(_TOO_MANY)
                    break
                self._piece = min(_PIECE, HEAD_BYTES - self._beside, len(data) - begin)
                self._beside += self._piece
                self._parse(data[begin : begin + self._piece])
                begin += self._piece
            self._sort()

        def _parse(self, data: bytes) -> None:
            self._unset_keepalive_if_required()
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                self._go_on(data[upgrade.args[0] :])
            except httptools.HttpParserError:
                self._refuse(_FIELDS if self._in_head and len(self.headers) >= HEAD_FIELDS else _NOT_HTTP)

        def _go_on(self, rest: bytes) -> None:
            """Read on as HTTP/1.1, as a server may that is asked for another protocol; here the parser would end."""
            lines = [b"%s: %s\r\n" % (name, value) for name, value in self.headers if name in _LENGTHS]
            self.parser = httptools.HttpRequestParser(self)
            self._begun_before = True
            self.parser.feed_data(b"".join([b"POST / HTTP/1.1\r\n", *lines, b"\r\n"]))
            self._begun_before = False
            self._parse(rest)

        def on_message_begin(self) -> None:
            """A head begins, nobody knows where in the piece."""
            if self._begun_before:
                return
            self._in_head = True
            self._beside = self._piece
            super().on_message_begin()

        def on_header(self, name: bytes, value: bytes) -> None:
            """Take a header, but none that follows a body: what was checked would no longer hold."""
            if self._in_head:
                if len(self.headers) >= HEAD_FIELDS:
                    raise ValueError("too many headers")  # which the parser reports as an error of its own
                super().on_header(name, value)

        def on_headers_complete(self) -> None:
            """The head is here."""
            if self._begun_before:
                return
            self._in_head = False
            self._beside = 0
            self._stop_clock()
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            """A part of a body is here: lengths of parts and what follows the last are counted from now on."""
            self._beside = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            """The request is here, unless the parser leaves its body out, see `_go_on`."""
            if not self.parser.should_upgrade():
                super().on_message_complete()

        def _start_asgi_task(self, cycle: Any, app: Any) -> None:
            self._begun = cycle
            super()._start_asgi_task(cycle, app)

        def on_response_complete(self) -> None:
            """Wait for another request, once the client has read the response."""
            super().on_response_complete()
            self._sort(idle=self.transport.get_write_buffer_size() == 0)

        def shutdown(self) -> None:
            """End after the answers to what is here; who has sent no whole request is not waited for."""
            if self._answering() or self.pipeline:
                super().shutdown()
            else:
                self.transport.close()

        def pause_writing(self) -> None:
            """The client does not read."""
            super().pause_writing()
            self._sort()
            self._await_reader(self.transport.get_write_buffer_size())

        def resume_writing(self) -> None:
            """The client reads again."""
            super().resume_writing()
            self._stop_reading_clock()
            self._sort()

        def _await_reader(self, held: int) -> None:
            def look() -> None:
                left = self.transport.get_write_buffer_size()
                if left > held - READ_BYTES:
                    self.transport.abort()
                    event("not_read", level=logging.WARNING, bytes=left)
                else:
                    self._await_reader(left)

            self._unread = self.loop.call_later(READ_SECONDS, look)

        def _stop_reading_clock(self) -> None:
            if self._unread is not None:
                self._unread.cancel()
                self._unread = None

        def _free(self) -> bool:
            """Return whether no request is being received or answered whose head is here."""
            return self.cycle is None or self.cycle.response_complete

        def _answering(self) -> bool:
            """Return whether the last request is here as a whole, and not answered yet."""
            return not (self._free() or self.cycle.more_body)

        def _sort(self, *, idle: bool = False) -> None:
            if self._answering() and not self.pipeline and not self.flow.write_paused:
                waiting.remove(self)
            elif self in self.connections:  # a response may end after the connection
                waiting.add(self, self.client, idle=idle)

        def _await_head(self) -> None:
            self._late = self.loop.call_later(HEAD_SECONDS, self._close_if_late)

        def _stop_clock(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None

        def _close_if_late(self) -> None:
            if not self.transport.is_closing():
                self.transport.close()

        def _say_full(self) -> None:
            nonlocal said
            if (now := self.loop.time()) >= said + _SAID:
                said = now
                event("connections_full", level=logging.WARNING, open=connections)

        def _refuse(self, failure: Failure) -> None:
            """Close the connection, after the response to what is being answered, if anything is, else with one."""
            self._refused = True
            if failure is not _TOO_MANY:
                event("refused", level=logging.WARNING, status=failure.status, type=failure.type)
            if self.pipeline and self.cycle.more_body:  # what is not whole is answered to nobody
                self.pipeline.popleft()
                self.cycle = self.pipeline[0][0] if self.pipeline else self._begun
            if self._answering():
                self.cycle.keep_alive = False
                return
            if self._free() or not self.cycle.response_started:
                self.transport.write(_response(failure))
            if not self._free():
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            self.transport.close()

    return LimitedProtocol


def _response(failure: Failure) -> bytes:
    body = json.dumps(failure.as_dict())
    headers = {"Content-Type": "application/json", "Content-Length": len(body), "Connection": "close"}
    lines = [f"{name}: {value}\r\n" for name, value in {**headers, **failure.headers}.items()]
    status = f"HTTP/1.1 {failure.status} {http.HTTPStatus(failure.status).phrase}\r\n"
    return "".join([status, *lines, "\r\n", body]).encode()
