"""`verihop serve`: a program over HTTP, with a page to ask it."""

import contextlib
import os
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from experiments.cli.shared import options
from experiments.cli.shared.app import Log, Otel, spans_sent
from experiments.cli.shared.console import emit, note
from experiments.cli.shared.options import Limits as Budgets
from experiments.cli.shared.options import with_option_groups
from experiments.runs.specs import ProgramSpec
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError
from signatures.common.specs import Field, Range, fields_of

if TYPE_CHECKING:
    from experiments.pipeline.opened import OpenedProgram
    from experiments.service.answering import Limits
    from experiments.service.app import Service
    from experiments.service.run import Address

TOKEN_VARIABLE = "VERIHOP_TOKEN"
Token = Annotated[
    str | None,
    typer.Option(
        help=f"Requests must send it (Authorization: Bearer TOKEN). Safer in the variable {TOKEN_VARIABLE}: "
        "other users of this machine can see arguments.",
        show_default=False,
    ),
]
QuestionBudget = Annotated[
    list[str] | None,
    typer.Option(help="Budget of one question, e.g. calls=50 tokens=20000.", show_default=False),
]
Reload = Annotated[
    bool,
    typer.Option(
        "--reload/--no-reload",
        help="Answer new questions from the new index or artifact when one changes (`verihop sync`, `compile`).",
    ),
]
ArtifactFolder = Annotated[
    Path | None, typer.Argument(metavar="ARTIFACT", help="A compiled program.", show_default=False)
]


@dataclass(frozen=True)
class Serving:
    """Where requests are answered, and what each may take."""

    PANEL: ClassVar[str] = "Service"
    host: Annotated[str, Field("Name or address to listen on; any but a loopback one needs a token.")] = "127.0.0.1"
    port: Annotated[int, Range(0, 65535), Field("Port; 0 for any that is free.")] = 8080
    token: Token = None
    width: Annotated[int, Range(1, 256), Field("Questions answered at a time.")] = 16
    queue: Annotated[int, Range(0), Field("Questions that may wait; further ones get status 503.")] = 64
    seconds: Annotated[float, Range(0.1), Field("Seconds that a question may take once it is started.")] = 600.0
    question_budget: QuestionBudget = None
    reload: Reload = True
    processes: Annotated[
        int,
        Range(1),
        Field("Processes, which share width, queue and --budget. Each uses one core and loads its own models."),
    ] = 1


@dataclass(frozen=True, kw_only=True)
class InteractiveLMSpec(LMSpec):
    """Which LM answers people, who wait less long than a run does."""

    retry_timeout: Annotated[float, Range(0), fields_of(LMSpec)["retry_timeout"].field] = 20.0


@with_option_groups
def serve(
    program: ProgramSpec,
    lm: InteractiveLMSpec,
    limits: Budgets,
    serving: Serving,
    artifact_folder: ArtifactFolder = None,
    as_json: options.Json = False,
    otel: Otel = False,
    log: Log = None,
) -> None:
    """Answer questions over HTTP: JSON, server-sent events, OpenAI's chat API, and a page for people.

    Routes: /v1/answers, /v1/chat/completions, /retrieve, /health, /ready, /metrics, /docs; the page is at /.
    """
    from experiments.pipeline.setup import parse_limits
    from experiments.service.answering import Limits
    from experiments.service.run import bound, check_processes, make_service

    require_extra("fastapi", "uvicorn", "prometheus_client")
    check_processes(serving.processes, serving.width)
    address = stated_address(serving.host, serving.port, serving.token)
    granted = Limits(
        serving.width,
        serving.queue,
        seconds=serving.seconds,
        budget=parse_limits(serving.question_budget, "--question-budget"),
    )
    config = named_program(program, artifact_folder)
    with contextlib.closing(bound(address)) as listener:
        named = options.answerer(config, lm, limits, threads=granted.width)
        tell = partial(_tell, as_json=as_json)
        if serving.processes > 1:
            _serve_divided(serving, named.open(), granted, address, listener, otel, tell)
        else:  # nothing but the service holds what is opened, so that an index that is replaced is freed
            service = make_service(named.open(), granted, address, reload=serving.reload)
            _serve_on(listener, service, address, otel, tell)


def _serve_on(
    listener: socket.socket, service: "Service", address: "Address", otel: bool, tell: Callable[[dict[str, Any]], None]
) -> None:
    from experiments.service.run import serve as serve_until_stopped

    with service_watched(service, otel):
        serve_until_stopped(service, address, lambda url: tell({"url": url, **service.about}), listener)


def _serve_divided(
    serving: Serving,
    opened: "OpenedProgram | None",
    granted: "Limits",
    address: "Address",
    holder: socket.socket,
    otel: bool,
    tell: Callable[[dict[str, Any]], None],
) -> None:
    from experiments.service.run import make_service, serve_in_processes, shared
    from programs.lms.calls.retry import share_limits

    processes = serving.processes

    def work(number: int, listener: socket.socket, ready: Callable[[dict[str, Any]], None]) -> None:
        nonlocal opened
        assert opened is not None
        share_limits(processes, number)
        service = make_service(opened, shared(granted, processes, number), address, reload=serving.reload)
        opened = None  # else the index could not be freed when it is replaced
        service = replace(service, about={**service.about, "processes": processes})
        _serve_on(listener, service, address, otel, ready)

    def begun(facts: dict[str, Any]) -> None:
        nonlocal opened
        opened = None
        tell(facts)

    if opened is not None:  # also without limits: `/metrics` tells what all processes have spent
        opened.connection.lm.budget.share()
    serve_in_processes(processes, holder, work, begun)


def stated_address(host: str, port: int, token: str | None) -> "Address":
    """Return the address of a server; a token that is not stated may be in the environment.

    Raises:
        UserError: Others could ask without a token, or the token is no word.
    """
    from experiments.service.run import Address, is_local

    token = (token or os.environ.get(TOKEN_VARIABLE, "")).strip() or None
    if token is None and not is_local(host):
        raise UserError(
            f"Anyone who can reach {host} could ask, at your cost: set a token with --token or the variable "
            f"{TOKEN_VARIABLE}, or listen on 127.0.0.1."
        )
    return Address(host, port, token)


def named_program(program: ProgramSpec, folder: Path | None) -> ProgramSpec:
    """Return a program that is named by options, or by the folder of its artifact."""
    if folder is not None and program.artifact is not None and folder != program.artifact:
        raise UserError(f"{folder} and {program.artifact} are both given: serve one of them.")
    return replace(program, artifact=folder or program.artifact)


def opened_service(
    program: ProgramSpec, lm: LMSpec, granted: "Limits", address: "Address", limits: Budgets, *, reload: bool
) -> "Service":
    """Return the service of a program, ready to answer, and say what was chosen for the embedded LM."""
    from experiments.service.run import make_service

    named = options.answerer(program, lm, limits, threads=granted.width)
    return make_service(named.open(), granted, address, reload=reload)


@contextlib.contextmanager
def service_watched(service: "Service", otel: bool) -> Iterator[None]:
    """In the block, reopen its index when it changes, send spans if wanted, and say when the LM is waited for."""
    from experiments.service.served import reloading
    from programs.lms.calls.control import controlled

    with controlled(note), spans_sent(otel) as watched, reloading(service, note, watched):
        watched(service.answering.answerer.program)
        yield


def require_extra(*modules: str) -> None:
    """Raise UserError if a module of the extra `serve` is missing."""
    from importlib.util import find_spec

    if missing := [name for name in modules if find_spec(name) is None]:
        raise UserError(f"This command needs {', '.join(missing)}: pip install 'verihop[serve]'.")


def _tell(about: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        emit(about)
        sys.stdout.flush()
    url = about["url"]
    note(f"Ready: {url} ({about['program']}, {about['lm']}). Routes: {url}docs. Ctrl-C stops.")


@dataclass(frozen=True)
class Transport:
    """How clients reach the tools."""

    PANEL: ClassVar[str] = "Transport"
    http: Annotated[bool, Field("Streamable HTTP at /mcp, in place of stdio.", "--http")] = False
    host: Annotated[str, Field("With --http: name or address; any but a loopback one needs a token.")] = "127.0.0.1"
    port: Annotated[int, Range(0, 65535), Field("With --http: port; 0 for any that is free.")] = 8081
    token: Token = None
    question_budget: QuestionBudget = None
    reload: Reload = True


@with_option_groups
def mcp(
    program: ProgramSpec,
    lm: InteractiveLMSpec,
    limits: Budgets,
    transport: Transport,
    artifact_folder: ArtifactFolder = None,
    otel: Otel = False,
    log: Log = None,
) -> None:
    """Offer a program to MCP clients as tools: ask, search and read_passage.

    Over stdio by default: the client starts this command, and all other output goes to standard error.
    """
    require_extra("mcp", "fastapi", "uvicorn", "prometheus_client")
    from experiments.pipeline.setup import parse_limits
    from experiments.service.answering import Limits
    from experiments.service.run import Address, bound, serve_tools
    from experiments.service.tools import claimed, serve_over_stdio

    granted = Limits(budget=parse_limits(transport.question_budget, "--question-budget"))
    if not transport.http:
        with claimed() as wire:
            config, reload = named_program(program, artifact_folder), transport.reload
            service = opened_service(config, lm, granted, Address(), limits, reload=reload)
            with service_watched(service, otel):
                note(f"Ready over stdio ({service.about['program']}, {service.about['lm']}). Ctrl-C stops.")
                serve_over_stdio(service, wire)
        return
    address = stated_address(transport.host, transport.port, transport.token)
    config = named_program(program, artifact_folder)
    with contextlib.closing(bound(address)) as listener:
        service = opened_service(config, lm, granted, address, limits, reload=transport.reload)
        with service_watched(service, otel):
            about = f"({service.about['program']}, {service.about['lm']}). Ctrl-C stops."
            serve_tools(service, address, lambda url: note(f"Ready: {url}mcp {about}"), listener)
