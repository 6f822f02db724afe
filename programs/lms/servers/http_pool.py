"""Kept HTTP connections to one server, each used by one call at a time."""

import contextlib
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping

import urllib3

from programs.lms.calls.control import abortable
from programs.lms.servers.http_connection import HttpConnection, NoReply, NoReplyInTime, named_errors
from programs.lms.servers.http_route import Route, route_to
from signatures.common.http import ENCODINGS, MOST_BYTES
from signatures.common.per_process import PerProcess

IDLE_SECONDS = 4.0  # uvicorn, under vLLM and SGLang, closes a connection that was idle for 5 s
_PIECE = 1 << 16


class UnreadableReply(Exception):
    """The reply is larger than allowed, or compressed in a way that was not requested."""

    def __init__(self, reason: str, status: int):
        super().__init__(reason)
        self.status = status


class Reply:
    """A reply whose content is still to be read.

    Args:
        answer: From urllib3.
        until: When the call's time is over, on the clock of `time.monotonic`.
        limit: Sets that time for the connection.
    """

    def __init__(self, answer: urllib3.BaseHTTPResponse, until: float, limit: Callable[[float], None]):
        self.status: int = answer.status
        self.headers: Mapping[str, str] = answer.headers  # names in any case
        self.whole = False  # whether the content was read to its end
        self._answer, self._until, self._limit = answer, until, limit

    def pieces(self) -> Iterator[bytes]:
        """Yield the content as it comes in, decompressed.

        Raises:
            NoReply: The connection broke.
            NoReplyInTime: The time of the call is over.
            UnreadableReply: It is larger than 64 MiB, or compressed in another way than by gzip or deflate.
        """
        encoding = self.headers.get("Content-Encoding", "").strip().lower()
        if encoding not in ENCODINGS:
            raise UnreadableReply(f"the reply is compressed by {encoding[:30]!r}, which was not requested", self.status)
        size = 0
        while True:
            if time.monotonic() > self._until:
                raise NoReplyInTime
            with named_errors():
                piece = self._answer.read1(_PIECE)
            if not piece:
                self.whole = True
                return
            size += len(piece)
            if size > MOST_BYTES:
                raise UnreadableReply(f"the reply is larger than {MOST_BYTES:,} bytes", self.status)
            yield piece

    def end_within(self, seconds: float) -> None:
        """Read the rest, which should be empty, so that the connection can be kept; give up after `seconds`."""
        self._until = min(self._until, time.monotonic() + seconds)
        self._limit(self._until)
        with contextlib.suppress(NoReply):
            for _ in self.pieces():
                pass

    def content(self) -> bytes:
        """Return the whole content; raises as `pieces` does."""
        return b"".join(self.pieces())


class HttpPool:
    """Sends requests to one host; safe under threads, and in a forked process.

    A connection belongs to one call from its request to the end of the reply. A pool that looks at its idle connections
    while others use them, as httpcore 1.0.9 does, takes a connection whose reply has just come for one that the server
    closed, and closes it under its reader.

    The proxies of the environment and the system's certificates are read once, when the first connection is opened.
    Redirects are not followed: they would carry the key and the prompt elsewhere.

    Args:
        api_base: A URL of the host; a user name and password in it are sent in place of the key.
        key: Sent as a bearer token; None sends none.
        connections: Requests in flight at a time; others wait, and their time begins after that.
    """

    def __init__(self, api_base: str, key: str | None = None, connections: int = 100):
        self._api_base, self._key = api_base, key
        # A fork begins anew: over connections that it shares with its parent, replies get mixed up.
        self._state = PerProcess(lambda: _State(connections))

    def close(self) -> None:
        """Close the connections, and those in use after their reply; the next request opens new ones."""
        state = self._state()
        with state.lock:
            state.closings += 1
            state.route = None
            idle = list(state.idle)
            state.idle.clear()
        _close_all(idle)

    @contextlib.contextmanager
    def request(self, method: str, url: str, body: bytes | None = None, *, seconds: float) -> Iterator[Reply]:
        """Send a request and return its reply, whose content is to be read inside the `with` block.

        A kept connection may have been closed by the server in the meantime: if it breaks before a reply begins, the
        request is sent once more, over a new one.

        Args:
            method: HTTP method.
            url: On the host of the pool.
            body: JSON.
            seconds: For the request and the whole reply.

        Raises:
            NoReply: The server cannot be reached, or the connection broke.
            NoReplyInTime: The time is over.
            BaseException: What ended the call (`programs.lms.calls.control.abortable`).
            UserError: The proxy settings cannot be used.
        """
        state = self._state()
        with state.free:
            until = time.monotonic() + seconds
            closings = state.closings
            use = _Use(self._take())
            with abortable(use.abort):
                answer = self._send(use, method, url, body, until)
                reply = Reply(answer, until, use.connection.limit)
                try:
                    yield reply
                finally:
                    use.end()
                    if not reply.whole:
                        answer.close()
                    self._give_back(use.connection, kept=reply.whole and closings == state.closings)

    def _send(self, use: "_Use", method: str, url: str, body: bytes | None, until: float) -> urllib3.BaseHTTPResponse:
        try:
            return use.connection.send(method, url, body, until)
        except NoReplyInTime:
            raise
        except NoReply:
            if not use.connection.kept or use.connection.aborted:
                raise
        use.connection = self._new()
        return use.connection.send(method, url, body, until)

    def _give_back(self, connection: HttpConnection, *, kept: bool) -> None:
        if not kept or connection.aborted:
            connection.close()
            return
        connection.used = time.monotonic()
        state = self._state()
        with state.lock:
            state.idle.append(connection)

    def _take(self) -> HttpConnection:
        """Return a kept connection, or a new one; close those that have been idle for too long."""
        oldest = time.monotonic() - IDLE_SECONDS
        expired = []
        state = self._state()
        with state.lock:
            while state.idle and state.idle[0].used < oldest:
                expired.append(state.idle.popleft())
            connection = state.idle.pop() if state.idle else None
        _close_all(expired)
        return connection or self._new()

    def _new(self) -> HttpConnection:
        state = self._state()
        with state.lock:
            if state.route is None:
                state.route = route_to(self._api_base, self._key)
            return HttpConnection(state.route)


class _State:
    """The connections of a pool in one process."""

    def __init__(self, width: int):
        self.lock = threading.Lock()
        self.free = threading.Semaphore(width)
        self.idle: deque[HttpConnection] = deque()  # the one that was used last is at the right
        self.closings = 0  # a connection that was in use then is not kept
        self.route: Route | None = None
        weakref.finalize(self, _close_all, self.idle)


class _Use:
    """The connection of a call in progress. Another thread may abort the call, but nothing that comes after it."""

    def __init__(self, connection: HttpConnection):
        self.connection = connection
        self._lock = threading.Lock()
        self._ended = False

    def abort(self) -> None:
        """Make the call fail, if it has not ended."""
        with self._lock:
            if not self._ended:
                self.connection.abort()

    def end(self) -> None:
        """The reply has been read, or given up: the connection may be used by another call now."""
        with self._lock:
            self._ended = True


def _close_all(connections: Iterable[HttpConnection]) -> None:
    for connection in connections:
        connection.close()
