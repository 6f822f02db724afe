"""One HTTP connection to a server, and the time that a call over it may take."""

import contextlib
import http.client
import io
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import urllib3

from programs.lms.servers.http_route import Route
from signatures.common.errors import one_line

CONNECT_SECONDS = 10.0  # for a connection, which cannot be aborted while it is made; a host that is up takes less
_RECENT = 0.5  # seconds for which an idle connection is not asked whether the server has closed it


class NoReply(Exception):
    """The server cannot be reached, or the connection broke."""


class NoReplyInTime(NoReply):
    """The reply was not complete in time."""


class _NoConnection(NoReplyInTime):
    """A connection was not made in time."""


class HttpConnection:
    """One connection, which is opened by its first request."""

    def __init__(self, route: Route):
        self._route = route
        self._pool = route.open()
        self.used = 0.0  # when its last reply ended
        self.aborted = False
        self._opened: Any = None
        self._until = 0.0  # when the time of the call is over
        self._replying: socket.socket | None = None  # over which the last reply came, or comes
        kind: Any = type("OneWrite", (_OneWrite, self._pool.ConnectionCls), {})

        def opened(*args: Any, **kwargs: Any) -> Any:
            self._opened = kind(*args, **kwargs)
            self._opened.response_class = self._timed
            connect = self._opened.connect

            def connect_anew() -> None:  # the server had closed it
                connect()
                self.used = 0.0

            self._opened.connect = connect_anew
            return self._opened

        self._pool.ConnectionCls = opened  # type: ignore[assignment]  # urllib3 does not tell what it has opened

    @property
    def kept(self) -> bool:
        """Whether it has answered a request."""
        return self.used > 0

    def send(self, method: str, url: str, body: bytes | None, until: float) -> urllib3.BaseHTTPResponse:
        """Send a request and return the head of the reply."""
        self._until = until
        now = time.monotonic()
        left = until - now
        if left <= 0:
            raise NoReplyInTime
        if self._opened is not None:
            self._opened.recent = now - self.used < _RECENT
        limit = urllib3.Timeout(connect=min(left, CONNECT_SECONDS), read=left)
        try:
            with named_errors():
                return self._pool.urlopen(
                    method,
                    self._route.target(url),
                    body,
                    self._route.headers,
                    retries=False,
                    redirect=False,
                    assert_same_host=False,
                    preload_content=False,
                    timeout=limit,
                )
        except _NoConnection as error:
            if left <= CONNECT_SECONDS:  # the time of the call is over
                raise
            raise NoReply(f"no connection within {CONNECT_SECONDS:g} s") from error

    def limit(self, until: float) -> None:
        """Set when the time of the call in progress is over."""
        self._until = until

    def _timed(self, connected: socket.socket, *args: Any, **kwargs: Any) -> http.client.HTTPResponse:
        """Return a reply of the standard library that is read until the time of the call is over."""
        self._replying = connected
        reply = http.client.HTTPResponse(connected, *args, **kwargs)
        reply.fp = io.BufferedReader(_TimedReader(connected, reply.fp, lambda: self._until - time.monotonic()))
        return reply

    def abort(self) -> None:
        """Make a call that waits for a reply over it fail now; called by another thread."""
        self.aborted = True
        # While the last reply over a connection is read, urllib3 has let go of the socket.
        for opened in (getattr(self._opened, "sock", None), self._replying):
            if opened is not None:
                with contextlib.suppress(OSError):  # closed meanwhile
                    socket.socket.shutdown(opened, socket.SHUT_RDWR)  # not TLS's own shutdown, which would wait

    def close(self) -> None:
        """Close it."""
        self._pool.close()


class _OneWrite:
    """Mixed in before a connection of urllib3: fewer system calls, each of which may wait for the interpreter lock.

    The head and the body of a request are sent together.
    """

    recent = False  # whether it is too recent for the server to have closed it; if it has, the request is repeated
    _pending: list[bytes] | None = None
    sock: Any

    def request(self, *args: Any, **kwargs: Any) -> None:
        """Send a request."""
        self._pending = []
        try:
            super().request(*args, **kwargs)  # type: ignore[misc]
            request = b"".join(self._pending)
        finally:
            self._pending = None
        self.send(request)

    def send(self, data: bytes) -> None:
        """Send data, with what follows if they are part of a request."""
        if self._pending is None:
            super().send(data)  # type: ignore[misc]
        else:
            self._pending.append(data)

    @property
    def is_connected(self) -> bool:
        """Whether the connection seems to be open."""
        return self.sock is not None if self.recent else super().is_connected  # type: ignore[misc]


class _TimedReader(io.RawIOBase):
    """Reads what comes over a connection; a time limit of a socket is that of each piece, and pieces may be small.

    Args:
        connected: The socket.
        source: Reads from it, unbuffered until then.
        left: Returns the seconds that are left.
    """

    def __init__(self, connected: socket.socket, source: io.BufferedReader, left: Callable[[], float]):
        self._connected, self._source, self._left = connected, source, left

    def readable(self) -> bool:
        """Return whether it can be read."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read the next piece.

        Raises:
            TimeoutError: No time is left.
        """
        left = self._left()
        if left <= 0:
            raise TimeoutError("timed out")
        self._connected.settimeout(left)
        return self._source.raw.readinto(buffer)

    def close(self) -> None:
        """Close the source, which holds the socket open."""
        self._source.close()
        super().close()


@contextlib.contextmanager
def named_errors() -> Iterator[None]:
    """Raise errors of urllib3 as `NoReply` and `NoReplyInTime`."""
    try:
        yield
    except urllib3.exceptions.NewConnectionError as error:
        raise NoReply(_reason(error)) from error
    except urllib3.exceptions.ConnectTimeoutError as error:
        raise _NoConnection from error
    except urllib3.exceptions.TimeoutError as error:
        raise NoReplyInTime from error
    except (urllib3.exceptions.HTTPError, UnicodeError) as error:  # a host name may be none
        raise NoReply(_reason(error)) from error


def _reason(error: BaseException) -> str:
    """Return what is behind an error of urllib3, which wraps errors and names its own objects."""
    inner = next((part for part in (*reversed(error.args), error.__cause__) if isinstance(part, Exception)), None)
    return _reason(inner) if inner is not None else one_line(error) or type(error).__name__
