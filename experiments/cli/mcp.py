"""`verihop mcp`: a program as tools of the Model Context Protocol."""

import contextlib
from dataclasses import dataclass
from typing import Annotated, ClassVar

from experiments.cli.serve import (
    ArtifactFolder,
    QuestionBudget,
    Reload,
    Token,
    named_program,
    opened_service,
    require_extra,
    service_watched,
    stated_address,
)
from experiments.cli.shared.app import Log, Otel
from experiments.cli.shared.console import note
from experiments.cli.shared.options import Limits as Budgets
from experiments.cli.shared.options import with_option_groups
from experiments.runs.specs import ProgramSpec
from programs.lms.spec import LMSpec
from signatures.common.specs import Field, Range


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
    lm: LMSpec,
    limits: Budgets,
    transport: Transport,
    artifact_folder: ArtifactFolder = None,
    otel: Otel = False,
    log: Log = None,
) -> None:
    """Offer a program to MCP clients as tools: ask, search and read_passage.

    Over stdio by default: the client starts this command, and whatever else prints does so on standard error.
    """
    require_extra("mcp", "fastapi", "uvicorn")
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
