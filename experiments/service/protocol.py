"""HTTP connections with limits that uvicorn lacks: the size of a head, and the time that it may take to come."""

import asyncio
from typing import Any

HEAD_BYTES = 1 << 16
HEAD_SECONDS = 30.0
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def limited_http() -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with these limits."""
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class LimitedProtocol(HttpToolsProtocol):
        """Closes connections whose head is too large or does not come."""

        def connection_made(self, transport: Any) -> None:
            """Wait for a head."""
            super().connection_made(transport)
            self._head, self._in_head = 0, True
            self._late = self.loop.call_later(HEAD_SECONDS, self._close_if_late)

        def connection_lost(self, exc: Exception | None) -> None:
            """Wait no longer."""
            self._late.cancel()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            """Count the bytes of a head; those of a body that came with its end do not count."""
            super().data_received(data)
            if self._in_head:
                self._head += len(data)
                if self._head > HEAD_BYTES and not self.transport.is_closing():
                    self.transport.write(_TOO_LARGE)
                    self.transport.close()

        def on_message_begin(self) -> None:
            """A head begins."""
            self._in_head = True
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            """The head is here."""
            self._head, self._in_head = 0, False
            self._late.cancel()
            super().on_headers_complete()

        def _close_if_late(self) -> None:
            if self._in_head and not self.transport.is_closing():
                self.transport.close()

    return LimitedProtocol
