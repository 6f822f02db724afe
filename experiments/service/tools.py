"""The same service as tools of the Model Context Protocol (MCP): `ask`, `search` and `read_passage`.

https://modelcontextprotocol.io; the server is that of the official SDK, over stdio or streamable HTTP.
"""

import asyncio
from importlib import metadata
from typing import TYPE_CHECKING, Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

from experiments.service.failures import Refused, failure_of

if TYPE_CHECKING:
    from experiments.service.app import Service

MOST_PASSAGES = 50
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)


class Step(BaseModel):
    """One hop: a sub-question and its answer."""

    question: str
    answer: str
    evidence: str | None = None


class Found(BaseModel, extra="allow"):
    """A passage, with its other keys such as source, page and url."""

    id: str
    title: str
    text: str
    score: float | None = None


class Answer(BaseModel):
    """An answer with its evidence."""

    answer: str = Field(description="Short answer; empty if there is none.")
    response: str = Field(description="Longer answer; [n] are numbers of passages, from 1.")
    abstained: bool
    steps: list[Step]
    passages: list[Found] = Field(description="What was read, in reading order.")
    cited: list[str] = Field(description="Ids of the passages that the answer rests on.")
    llm_calls: int


def make_tools(service: "Service") -> MCPServer:
    """Return an MCP server with the tools of a service; without an index it has `ask` alone."""
    about = service.about
    server = MCPServer(
        "verihop",
        version=metadata.version("verihop"),
        log_level="WARNING",
        instructions="Answers multi-hop questions over a corpus and names the passages that each answer rests on. "
        f"Program: {about.get('program')}; LM: {about.get('lm')}.",
    )
    _add_ask(server, service)
    if service.retrieve is not None:
        _add_search(server, service)
    return server


def _add_ask(server: MCPServer, service: "Service") -> None:
    @server.tool(title="Ask the corpus", annotations=_READS)
    async def ask(question: Annotated[str, Field(description="A whole question.")], context: Context) -> Answer:
        """Answer a question from the corpus in several steps, with the passages it rests on; takes a while."""
        most = service.answering.limits.question_characters
        if not question.strip() or len(question) > most:
            raise ToolError(f"A question has 1 to {most:,} characters.")
        try:
            async for event in service.answering.events(question.strip()):
                if event.kind == "hop":
                    hop = event.data["hop"]
                    said = f"{hop['question']} {hop['answer']}".strip()
                    await context.report_progress(event.data["number"], message=said[:500])
                elif event.kind == "answer":
                    return _answer(event.data)
                elif event.kind == "error":
                    raise ToolError(event.data["error"]["message"])
        except Refused as error:
            raise ToolError(str(error)) from None
        raise AssertionError("a question ends with an answer or an error")


def _answer(data: dict[str, Any]) -> Answer:
    steps = [Step.model_validate({name: hop[name] for name in Step.model_fields}) for hop in data["hops"]]
    return Answer(
        **{name: data[name] for name in ("answer", "response", "abstained", "passages")},
        steps=steps,
        cited=data["citations"],
        llm_calls=int(data["cost"]["calls"]),
    )


def _add_search(server: MCPServer, service: "Service") -> None:
    retrieve: Any = service.retrieve

    @server.tool(title="Search the corpus", annotations=_READS)
    async def search(
        query: Annotated[str, Field(description="Words or a question.")],
        k: Annotated[int, Field(ge=1, le=MOST_PASSAGES, description="Most passages.")] = 5,
    ) -> list[Found]:
        """Return the passages of the corpus that fit a query best, best first."""
        try:
            ranked = await asyncio.to_thread(retrieve, query, k)
        except Exception as error:
            raise ToolError(failure_of(error).message) from error
        return [Found.model_validate(passage.model_dump(mode="json")) for passage in ranked]

    if callable(getattr(retrieve, "passages", None)):

        @server.tool(title="Read a passage", annotations=_READS)
        async def read_passage(id: Annotated[str, Field(description="As search and ask return it.")]) -> Found:
            """Return one passage whole, by its id."""
            found = await asyncio.to_thread(retrieve.passages, [id])
            if not found:
                raise ToolError(f"The corpus has no passage {id[:200]!r}.")
            return Found.model_validate(found[0].model_dump(mode="json"))
