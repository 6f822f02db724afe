"""Open a program, warm it up, and serve it until a signal comes."""

import asyncio
import contextlib
import errno
import ipaddress
import logging
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from experiments.service.guards import LOOPBACK
from experiments.service.limits import Limits
from signatures.common.errors import UserError
from signatures.common.secrets import register

if TYPE_CHECKING:
    import dspy
    import uvicorn

    from experiments.pipeline.setup import ProgramConfig
    from experiments.runs.config import LMConfig
    from experiments.service.app import Service
    from programs.lms.calls.budget import Budget
    from programs.lms.connect import Connection
    from signatures.types import Retriever

_SPARE = 16  # threads
_BACKLOG = 2048  # connections that wait to be accepted
_ACCEPTED = (
    64  # at a time, before what they send is read: few, or many would be over the limit before one can be closed
)
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EINVAL)  # of an address that no device of this machine has
_GRACE = 30  # seconds that questions in progress have after the first signal


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
                f"Everyone who reaches {self.host} could ask, at your cost: set a token, or listen on 127.0.0.1."
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


@dataclass(frozen=True)
class Opened:
    """A program with its retriever, its LM and the budget of that, before models are loaded."""

    program: "dspy.Module"
    retrieve: "Retriever | None"
    connection: "Connection"
    budget: "Budget | None" = None


def open_parts(program_config: "ProgramConfig", lm_config: "LMConfig", budget: "Budget | None") -> Opened:
    """Open the program that a service will answer with.

    Raises:
        UserError: The program, its index or its LM cannot be opened.
    """
    from experiments.pipeline import setup

    retrieve = setup.open_retriever(program_config)
    connection = setup.open_lm(lm_config, budget)
    return Opened(setup.open_program(program_config, retrieve, connection), retrieve, connection, budget)


def make_service(opened: Opened, limits: Limits, address: Address) -> "Service":
    """Return a service that is ready to answer: models are loaded, and the LM has replied.

    Raises:
        UserError: A model cannot be loaded, or the LM does not answer, or it has no price but questions a limit in usd.
    """
    from experiments.service.answering import Answering
    from experiments.service.app import Service
    from programs.inference import Answerer

    # More threads than places: one that hangs outside of an LM call must not keep a later question from beginning.
    answerer = Answerer(opened.program, opened.connection, width=2 * limits.width + _SPARE)
    with _priced(limits):
        answerer.warm()
    about = _about(opened.program, opened.connection.id, opened.retrieve)
    return Service(Answering(answerer, limits), opened.retrieve, about, address.token, address.hosts)


@contextlib.contextmanager
def _priced(limits: Limits) -> Iterator[None]:
    """Raise UserError if an LM that is called in the block has no price, though a question may spend only so much."""
    from programs.lms.calls.budget import Budget
    from programs.lms.calls.question_budget import limited_by

    usd = limits.budget.get("usd")
    with contextlib.nullcontext() if usd is None else limited_by(Budget(usd=usd)):
        yield


def _about(program: Any, lm: str, retrieve: Any) -> dict[str, Any]:
    from programs.artifact import program_name

    index = getattr(retrieve, "retriever", retrieve)  # that of a reranker
    corpus = {"passages": len(index)} if hasattr(index, "__len__") else None
    title = (type(program).__doc__ or "").strip().partition("\n")[0]
    named = {"program": program_name(program), "title": title, "lm": lm, "corpus": corpus}
    return {**named, "max_calls": program.max_calls()}


def serve_tools(
    service: "Service",
    address: Address | None = None,
    ready: Callable[[str], None] = lambda url: None,
    listener: socket.socket | None = None,
) -> None:
    """Offer a service as MCP tools until a signal comes, or the client ends.

    Args:
        service: What is offered.
        address: Where, over HTTP; None for standard input and output.
        ready: As for `serve`.
        listener: As for `serve`.
    """
    from experiments.service.stdio import claimed, serve_over_stdio
    from experiments.service.tools import make_tools_app

    if address is None:
        with claimed() as wire:
            serve_over_stdio(service, wire)
        return
    _run(make_tools_app(service), service, address, ready, listener, lifespan="on")


def serve(
    service: "Service", address: Address, ready: Callable[[str], None], listener: socket.socket | None = None
) -> None:
    """Answer requests until SIGINT or SIGTERM; questions in progress may then go on for a while.

    Args:
        service: What is served.
        address: Where.
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
        make_server(app, connections_of(service.answering.limits), lifespan=lifespan).run(sockets=[listener])


def connections_of(limits: Limits) -> int:
    """Return how many connections may be open at a time: at most half of the files that this process may open."""
    from programs.lms.calls.transport import open_files

    files = open_files()
    return limits.connections if files is None else max(1, min(limits.connections, files // 2))


def make_server(app: Any, connections: int, *, lifespan: Literal["on", "off"] = "off") -> "uvicorn.Server":
    """Return the server of an ASGI application; it listens on the sockets that it is run with.

    Args:
        app: Answers requests.
        connections: That may be open at a time.
        lifespan: Whether the application is told when it begins and ends.
    """
    import uvicorn

    from experiments.service.protocol import limited_http

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            for listener in sockets or []:  # more may wait than are accepted at a time, which uvicorn knows not apart
                listener.listen(_BACKLOG)

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
            timeout_graceful_shutdown=_GRACE,
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
        try:
            if os.name == "posix":  # elsewhere it lets two servers share a port
                holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                holder.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            holder.bind(place)
        except BaseException:
            holder.close()
            raise
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
            said = f"{address.host} is no address of this machine ({reason}). Name one, such as 127.0.0.1."
        else:
            said = f"{address} cannot be opened ({reason}). Choose another port, or 0 for any."
        raise UserError(said) from None
