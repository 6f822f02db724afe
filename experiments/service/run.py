"""Open a program, warm it up, and serve it until a signal comes, also in several processes.

Python code of one process uses one core. Each process is a fork with a socket of its own at the same port: the system
deals the connections among them. They are started before models are loaded, which forks badly, so each loads its own.
The first process, which answers nothing, passes signals on, and ends the service when one of the others ends by itself.
"""

import asyncio
import contextlib
import errno
import http
import ipaddress
import json
import logging
import math
import os
import signal
import socket
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from experiments.pipeline.parallel.process_pool import (
    Child,
    end_all,
    exit_reason,
    forking,
    packed_error,
    receive,
    send,
    unpacked_error,
    why_one_process,
)
from experiments.service.answering import Answering, Failure, Limits
from experiments.service.guards import LOOPBACK
from programs.lms.calls.budget import Budget, limited_by
from programs.parts.threads import daemon
from signatures.common.errors import UserError, undone_by_error, user_error_within
from signatures.common.interrupts import handled
from signatures.common.logs import event
from signatures.common.secrets import register

if TYPE_CHECKING:
    import uvicorn

    from experiments.pipeline.opened import OpenedProgram
    from experiments.service.app import Service


_BACKLOG = 2048  # connections that wait to be accepted
_ACCEPTED = (
    64  # at a time, before what they send is read: few, or many would be over the limit before one can be closed
)
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EINVAL)  # of an address that no device of this machine has
_GRACE = 30  # seconds that questions in progress have after the first signal
_LAST_WORDS = 5  # seconds for a process to end after it was told to, and for clients to read that it ends


@dataclass(frozen=True)
class Address:
    """Where a service listens, and who may ask.

    Args:
        host: A name or address of this machine.
        port: 0 for any that is free.
        token: That requests must state; needed unless the host is a loopback address.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    token: str | None = None

    def __post_init__(self) -> None:
        """Hide the token from now on; raise UserError if others could ask without one."""
        register(self.token)
        if self.token is None and not self.local:
            raise UserError(
                f"Anyone who can reach {self.host} could ask, at your cost: set a token, or listen on 127.0.0.1."
            )
        if self.token is not None and not (self.token.isascii() and self.token.split() == [self.token]):
            raise UserError("The token must be a word of ASCII characters.")

    @property
    def local(self) -> bool:
        """Whether only this machine reaches it."""
        return is_local(self.host)

    @property
    def hosts(self) -> tuple[str, ...] | None:
        """Names that the Host header may have; with a token any."""
        return None if self.token is not None else (*LOOPBACK, self.host)

    def __str__(self) -> str:
        """Return host and port as in a URL."""
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def is_local(host: str) -> bool:
    """Return whether only this machine reaches what listens on a host."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return False


def make_service(opened: "OpenedProgram", limits: Limits, address: Address, *, reload: bool = True) -> "Service":
    """Return a service that is ready to answer: models are loaded, and the LM has replied.

    Args:
        opened: What answers.
        reload: It may be opened anew when its index has changed (`experiments.service.served.reloading`).

    Raises:
        UserError: A model cannot be loaded, or the LM does not answer, or it has no price but questions a limit in usd.
    """
    from experiments.service.app import Service
    from experiments.service.served import about, answerer_of, index_folder

    answerer = answerer_of(opened, limits)
    with _priced(limits):
        answerer.warm()
    reload = reload and index_folder(opened) is not None
    told = {**about(opened, reload=reload), "refused": {}}
    again = opened if reload else None
    return Service(Answering(answerer, limits), opened.retrieve, told, address.token, address.hosts, again)


@contextlib.contextmanager
def _priced(limits: Limits) -> Iterator[None]:
    """Raise UserError if an LM that is called in the block has no price, though a question may spend only so much."""
    usd = limits.budget.get("usd")
    with contextlib.nullcontext() if usd is None else limited_by(Budget(usd=usd)):
        yield


def serve_tools(service: "Service", address: Address, ready: Callable[[str], None], listener: socket.socket) -> None:
    """Offer a service as MCP tools over HTTP until a signal comes; arguments as of `serve`."""
    from experiments.service.tools import make_tools_app

    _run(make_tools_app(service), service, address, ready, listener, lifespan="on")


def serve(
    service: "Service", address: Address, ready: Callable[[str], None], listener: socket.socket | None = None
) -> None:
    """Answer requests until SIGINT or SIGTERM; questions in progress may then go on for a while.

    Args:
        service: What is served.
        ready: Called with the URL once requests are answered.
        listener: What `bound` returned for the address, to be closed at the end; None to bind it now.

    Raises:
        UserError: The address cannot be opened.
        KeyboardInterrupt: SIGINT came, and the service has stopped.
    """
    from experiments.service.app import make_app

    _run(make_app(service), service, address, ready, listener)


def _run(
    app: Any,
    service: "Service",
    address: Address,
    ready: Callable[[str], None],
    listener: socket.socket | None,
    *,
    lifespan: Literal["on", "off"] = "off",
) -> None:
    with contextlib.closing(bound(address) if listener is None else listener) as listener:
        with _errors_of(address):
            listener.listen(_BACKLOG)  # a client that connects from now on is answered
        ready(f"http://{replace(address, port=listener.getsockname()[1])}/")
        make_server(app, service.answering, lifespan=lifespan).run(sockets=[listener])


def connections_of(limits: Limits) -> int:
    """Return how many connections may be open at a time: at most half of the files that this process may open."""
    from programs.lms.calls.transport import open_files

    files = open_files()
    return limits.connections if files is None else max(1, min(limits.connections, files // 2))


def make_server(app: Any, answering: Answering, *, lifespan: Literal["on", "off"] = "off") -> "uvicorn.Server":
    """Return the server of an ASGI application; it listens on the sockets that it is run with.

    Args:
        app: Answers requests.
        answering: Its questions end when they have had their time after the first signal.
        lifespan: Whether the application is told when it begins and ends.
    """
    import uvicorn

    class Server(uvicorn.Server):
        stopping: tuple[str, float, int] | None = None  # first signal, when, and how many were answered before

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            self.stopping = self.stopping or (signal.Signals(sig).name, time.monotonic(), answering.counts.answered)
            super().handle_exit(sig, frame)

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            for listener in sockets or []:  # more may wait than are accepted at a time, which uvicorn knows not apart
                listener.listen(_BACKLOG)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            reason, begun, before = self.stopping or (None, time.monotonic(), answering.counts.answered)
            asyncio.get_running_loop().call_later(_GRACE, answering.stop)
            await super().shutdown(sockets)
            counts, seconds = answering.counts, round(time.monotonic() - begun, 3)
            cut_off = answering.cut_off or counts.answering + counts.waiting  # by a second Ctrl-C
            event("stopped", signal=reason, answered=counts.answered - before, cut_off=cut_off, seconds=seconds)

    connections = connections_of(answering.limits)
    log = logging.getLogger("uvicorn.error")
    log.setLevel(logging.WARNING)
    log.addFilter(_not_cancelled)
    return Server(
        uvicorn.Config(
            app,
            http=limited_http(connections),
            ws="none",
            backlog=max(1, min(_ACCEPTED, connections // 8)),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan=lifespan,
            timeout_graceful_shutdown=_GRACE + _LAST_WORDS,
        )
    )


def _not_cancelled(record: logging.LogRecord) -> bool:
    """Return whether a record is of another error than that of a question which a second Ctrl-C has cut."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


def bound(address: Address) -> socket.socket:
    """Return a socket that holds the address, and that does not listen yet: who connects is refused.

    So a server knows that it has its address before it loads models, and clients do not wait while it does.

    Raises:
        UserError: The address cannot be opened.
    """
    with _errors_of(address):
        family, _, _, _, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        holder = socket.socket(family, socket.SOCK_STREAM)
        with undone_by_error(holder.close):
            if os.name == "posix":  # elsewhere it lets two servers share a port
                holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            holder.bind(place)
    return holder


@contextlib.contextmanager
def _errors_of(address: Address) -> Iterator[None]:
    """Raise UserError, which names the host or the port, for an error of the system in the block."""
    try:
        yield
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        host = isinstance(error, (socket.gaierror, UnicodeError)) or getattr(error, "errno", None) in _NOT_HERE
        if host:
            said = f"{address.host} is not an address of this machine ({reason}). Name one, such as 127.0.0.1."
        else:
            said = f"{address} cannot be opened ({reason}). Choose another port, or 0 for any."
        raise UserError(said) from None


# Called with the number of the process, from 0, its socket, and what it calls when it answers, with facts as JSON.
Work = Callable[[int, socket.socket, Callable[[dict[str, Any]], None]], None]
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def check_processes(processes: int, width: int) -> None:
    """Raise UserError if a service cannot be divided so."""
    reason = why_one_process() if hasattr(socket, "SO_REUSEPORT") else "on this system: use threads"
    if processes > 1 and reason:
        raise UserError(f"processes must be 1, not {processes}, {reason}, or several services behind a proxy.")
    if processes > width:
        raise UserError(f"width ({width}) must be at least processes ({processes}): each answers one question or more.")


def shared(limits: Limits, processes: int, number: int) -> Limits:
    """Return what process `number`, from 0, of several grants: its part of width and queue, and at least one search."""

    def share(count: int) -> int:
        return count // processes + (number < count % processes)

    return replace(
        limits, width=share(limits.width), queue=share(limits.queue), searches=max(1, share(limits.searches))
    )


def serve_in_processes(
    processes: int, holder: socket.socket, work: Work, ready: Callable[[dict[str, Any]], None]
) -> None:
    """Serve in several processes until SIGINT or SIGTERM, which each process gets.

    Args:
        processes: At least 2.
        holder: Is bound to the address, and does not listen.
        work: Serves on a socket until a signal comes; runs in each process.
        ready: Called once when all processes answer, with the facts of the first.

    Raises:
        UserError: A process could not begin, or has ended unexpectedly.
        KeyboardInterrupt: SIGINT came, and all processes have ended.
    """
    signals = _Signals()
    with (
        tempfile.TemporaryDirectory(prefix="verihop-") as counts,
        contextlib.closing(_alone_at(holder)),
        handled(dict.fromkeys(_SIGNALS, signals.pass_on)),
    ):
        # Only now, since sockets with this option share a port, also with those of another service.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            _start(signals, processes, holder, work, counts)
            facts = _first_words(signals)
            if not signals.came:
                ready(facts[0])
            _until_ended(signals)
        finally:
            end_all(signals.members, _LAST_WORDS)
    if signals.came:  # with the handlers of before
        signal.raise_signal(signals.came[0])


def _alone_at(holder: socket.socket) -> socket.socket:
    """Return what no other service of several processes can have as long as it is open."""
    alone = socket.socket(socket.AF_UNIX)
    host, port = holder.getsockname()[:2]
    if sys.platform == "linux":  # others have no names outside the file system
        try:
            alone.bind(f"\0verihop serve {host}:{port}")
        except OSError:
            alone.close()
            raise UserError(f"{host}:{port} is in use. Choose another port, or 0 for any.") from None
    return alone


class _Signals:
    """Passes signals on to the processes, each once.

    Attributes:
        came: Those that came, in their order.
        members: Get them; empty while they are being started.
    """

    def __init__(self) -> None:
        self.came: list[int] = []
        self.members: list[Child] = []
        self._kept: list[int] = []  # came while processes were being started

    def started(self, members: list[Child]) -> None:
        """Take the processes, and send them what came in the meantime."""
        self.members += members
        while self._kept:
            self._send(self._kept.pop(0))

    def pass_on(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        self.came.append(number)
        if self.members:
            self._send(number)
        else:
            self._kept.append(number)

    def _send(self, number: int) -> None:
        for member in self.members:
            if member.process.is_alive():
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    os.kill(member.process.pid, number)


def _start(signals: _Signals, processes: int, holder: socket.socket, work: Work, counts: str) -> None:
    members: list[Child] = []
    with forking(members, _SIGNALS) as start:
        try:
            for number in range(processes):
                if signals.came:  # another thread of this process may get a signal that is blocked here
                    break
                start(_run_process, number, holder, work, counts)
        finally:
            signals.started(members)


def _run_process(link: Pipe, number: int, holder: socket.socket, work: Work, counts: str) -> None:
    try:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = counts  # see `experiments.service.metrics`
        os.setpgid(0, 0)  # the first process passes on what a terminal sends; it must not come twice
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # else a terminal may stop a process that writes to it
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        daemon(_end_with, link, name="end-with-first")
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        with contextlib.closing(_beside(holder)) as listener:
            work(number, listener, lambda facts: send(link, {"ready": facts}))
    except KeyboardInterrupt:
        return
    except BaseException as error:  # noqa: BLE001 - raised again by the first process
        found = user_error_within(error) if isinstance(error, Exception) else None
        with contextlib.suppress(OSError):
            send(link, {"failed": packed_error(found or error)})
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is ending


def _beside(holder: socket.socket) -> socket.socket:
    """Return a socket at the same address."""
    beside = socket.socket(holder.family, socket.SOCK_STREAM)
    with undone_by_error(beside.close):
        beside.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        beside.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if holder.family == socket.AF_INET6:
            beside.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        beside.bind(holder.getsockname())
    return beside


def _end_with(link: Pipe) -> None:
    with contextlib.suppress(EOFError, OSError):
        receive(link)  # nothing is ever sent: it returns when the first process has ended
    os.kill(os.getpid(), signal.SIGTERM)


def _first_words(signals: _Signals) -> list[dict[str, Any]]:
    """Return what the processes say when they are ready, in their order; less, if they were told to end before."""
    facts: dict[int, dict[str, Any]] = {}
    waiting: dict[Any, int] = {member.link: number for number, member in enumerate(signals.members)}
    while waiting:
        for link in wait(list(waiting)):
            number = waiting.pop(link)
            try:
                message = receive(signals.members[number].link)
            except (EOFError, OSError):
                message = {}
            if "ready" in message:
                facts[number] = message["ready"]
            elif not signals.came:
                raise unpacked_error(message["failed"]) if message else _died(signals.members[number])
    return [facts[number] for number in sorted(facts)]


def _until_ended(signals: _Signals) -> None:
    running = list(signals.members)
    while running:
        wait([member.process.sentinel for member in running])
        for member in [member for member in running if not member.process.is_alive()]:
            running.remove(member)
            if not signals.came:
                raise _died(member)


def _died(member: Child) -> BaseException:
    with contextlib.suppress(EOFError, OSError):
        return unpacked_error(receive(member.link)["failed"])
    reason = exit_reason(member.process, _LAST_WORDS)
    cure = " Start fewer." if member.process.exitcode == -signal.SIGKILL else ""
    return UserError(f"A process of the service ended unexpectedly: {reason}.{cure}")


Connection = TypeVar("Connection")


class Waiting(Generic[Connection]):
    """Says which connection is closed first.

    First those that are idle between two requests, the one that has waited longest. Then those without a whole request,
    of the address that has most of them the oldest. So nobody keeps others out by half requests: who has another
    address loses nothing, and who has the same, such as all on the loopback address or behind a proxy, has as long to
    send a request as it takes to open all connections anew.
    """

    def __init__(self) -> None:
        self._idle: dict[Connection, None] = {}  # in order of arrival, like those below
        self._begun: defaultdict[str, dict[Connection, None]] = defaultdict(dict)
        self._address: dict[Connection, str] = {}

    def add(self, connection: Connection, client: Any, *, idle: bool = False) -> None:
        """Add a connection, as the last; one that is there keeps its place unless it was idle and is no longer.

        Args:
            connection: What waits.
            client: Host and port; None if unknown.
            idle: Between two requests.
        """
        if idle:
            self.remove(connection)
            self._idle[connection] = None
        elif connection not in self._address:
            self._idle.pop(connection, None)
            address = self._address[connection] = _share(client)
            self._begun[address][connection] = None

    def remove(self, connection: Connection) -> None:
        """Remove a connection, if it is there."""
        self._idle.pop(connection, None)
        if (address := self._address.pop(connection, None)) is not None:
            del self._begun[address][connection]
            if not self._begun[address]:
                del self._begun[address]

    def first(self) -> Connection | None:
        """Return the connection to close; None if none waits."""
        most = self._idle or max(self._begun.values(), key=len, default={})
        return next(iter(most), None)


def _share(client: Any) -> str:
    """Return the address whose connections count together: of IPv6 the network, in which one host has any address."""
    host = str(client[0]) if client else ""
    return ipaddress.ip_address(host.partition("%")[0]).exploded[:19] if ":" in host else host


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
