"""The same service as tools of the Model Context Protocol (MCP): `ask`, `search` and `read_passage`.

https://modelcontextprotocol.io; the server is that of the official SDK, over stdio or streamable HTTP.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import select
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, TypeVar

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, BeforeValidator, Field, ValidationError
from pydantic_core import PydanticCustomError

from experiments.service.answering import Event, Refused, Searching, failure_of
from experiments.service.app import UNREADABLE, is_unicode
from experiments.service.guards import Guards
from experiments.service.leaving import Exchanges, ended, in_thread, unless_left
from experiments.service.metrics import Counted, Metrics
from signatures.common.errors import one_line
from signatures.types import QuoteMatch

if TYPE_CHECKING:
    from experiments.service.app import Service


T = TypeVar("T")
MOST_PASSAGES = 50
UNREAD_SECONDS = 10.0  # that a client which sends nothing more may leave a message unread
LAST_WRITE_SECONDS = 1.0  # as long as the SDK waits for the answers that say that it ends
_SHOWN = 80  # characters of a value that a message names
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)


class Step(BaseModel):
    """One hop: a sub-question and its answer."""

    question: str
    answer: str
    evidence: str | None = Field(None, description="Quoted or paraphrased from a passage; `match` says which.")
    match: QuoteMatch | None = Field(None, description="How the evidence stands there: verbatim, near or absent.")


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
    confidence: float | None = Field(description="Probability of the answer; none where the program states none.")
    unreadable: str | None = Field(description=UNREADABLE)
    steps: list[Step]
    passages: list[Found] = Field(description="What was read, in reading order.")
    cited: list[str] = Field(description="Ids of the passages that the answer rests on.")
    llm_calls: int


class Tools(MCPServer):
    """An MCP server whose errors are one sentence, and whose tools stop when the client that called them has left.

    Over HTTP a client has left when its connection is closed: none can be taken up again, so nobody would read the
    result.
    """

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context | None = None) -> Any:
        """Return the result of a tool.

        Raises:
            ToolError: There is none.
        """
        taken = {tool.name: tool.input_schema["properties"] for tool in await self.list_tools()}
        if name not in taken:
            raise ToolError(f"Unknown tool {_shown(name)}. Choose from: {', '.join(taken)}.")
        for argument in arguments:
            if argument not in taken[name]:
                raise ToolError(f"{name} takes no {_shown(argument)}. Choose from: {', '.join(taken[name])}.")
        request = None if context is None else context.request_context.request
        left = ended({} if request is None else request.scope)
        try:
            result = await unless_left(super().call_tool(name, arguments, context), left.wait())
        except UnexpectedToolError:
            raise
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(_problem(error.__cause__)) from None
            raise ToolError(str(error).removeprefix(f"Error executing tool {name}: ")) from None
        if result is None:
            raise ToolError("The client has left.")  # which nobody reads
        return result

    async def run_over(self, lines: AsyncIterator[str], output: Any) -> None:
        """Answer messages until they end.

        Args:
            lines: The messages, one each.
            output: Where answers are written; it has `write` and `flush`, both async.
        """
        streams: Any = {"stdin": lines, "stdout": output}
        async with stdio_server(**streams) as (incoming, outgoing):
            server = self._lowlevel_server  # as the SDK's own `run_stdio_async` does, which takes no streams
            await server.run(incoming, outgoing, server.create_initialization_options())


def make_tools_app(service: "Service") -> Counted:
    """Return the ASGI application of the tools of a service, at `/mcp`, and of `/metrics`; it needs its lifespan."""
    limits, metrics = service.answering.limits, Metrics(service.answering, lambda: service.about)
    server = make_tools(service, metrics.of_question)

    @server.custom_route("/metrics", methods=["GET"])
    async def counted(request: Any) -> Any:
        return metrics.response()

    # `Guards` checks host and origin; the SDK's own list has three names with a port and no other loopback address.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(max_request_body_size=limits.body_bytes, transport_security=security)
    guards = Guards(Exchanges(app), token=service.token, hosts=service.hosts, body_bytes=limits.body_bytes)
    return Counted(guards, metrics=metrics, paths={"/mcp", "/metrics"})


Counting = Callable[[AsyncGenerator[Event]], AsyncGenerator[Event]]


def make_tools(service: "Service", counting: Counting = lambda events: events) -> Tools:
    """Return an MCP server with the tools of a service; without an index it has `ask` alone.

    Args:
        counting: Is given the events of each question, and returns them.
    """
    about = service.about
    server = Tools(
        "verihop",
        version=metadata.version("verihop"),
        log_level="WARNING",
        instructions="Answers multi-hop questions over a corpus and names the passages that each answer rests on. "
        f"Program: {about.get('program')}; LM: {about.get('lm')}.",
    )
    _add_ask(server, service, counting)
    if service.retrieve is not None:
        _add_search(server, service)
    return server


def _add_ask(server: MCPServer, service: "Service", counting: Counting) -> None:
    most = service.answering.limits.question_characters

    @server.tool(title="Ask the corpus", annotations=_READS)
    async def ask(
        question: Annotated[str, Field(description="A whole question.", json_schema_extra=_length(most))],
        context: Context,
    ) -> Answer:
        """Answer a question from the corpus in several steps, with the passages it rests on; takes a while."""
        try:
            async for event in counting(service.answering.events(_text("question", question, most))):
                if event.kind == "hop":
                    hop = event.data["hop"]
                    said = f"{hop['question']} {hop['answer']}".strip()
                    await context.report_progress(event.data["number"], message=_sendable(said[:500]))
                elif event.kind == "answer":
                    return _answer(_sendable(event.data))
                elif event.kind == "error":
                    raise ToolError(event.data["error"]["message"])
        except Refused as error:
            raise ToolError(str(error)) from None
        raise AssertionError("a question ends with an answer or an error")


def _answer(data: dict[str, Any]) -> Answer:
    steps = [Step.model_validate({name: hop[name] for name in Step.model_fields}) for hop in data["hops"]]
    return Answer(
        **{name: data[name] for name in ("answer", "response", "abstained", "confidence", "unreadable", "passages")},
        steps=steps,
        cited=data["citations"],
        llm_calls=int(data["cost"]["calls"]),
    )


def _add_search(server: MCPServer, service: "Service") -> None:
    most = service.answering.limits.question_characters
    searching = Searching(service.answering.limits)

    def current() -> Any:
        return service.retrieve

    async def found(search: Callable[[], T]) -> T:
        try:
            return await searching.run(search)
        except Exception as error:
            raise ToolError(failure_of(error).message) from error

    @server.tool(title="Search the corpus", annotations=_READS)
    async def search(
        query: Annotated[str, Field(description="Words or a question.", json_schema_extra=_length(most))],
        k: Annotated[int, BeforeValidator(_k), Field(ge=1, le=MOST_PASSAGES, description="Most passages.")] = 5,
    ) -> list[Found]:
        """Return the passages of the corpus that fit a query best, best first."""
        words = _text("query", query, most)
        ranked = await found(partial(current(), words, k))
        return [_passage(passage) for passage in ranked] or _none_found(words)

    if callable(getattr(current(), "passages", None)):

        @server.tool(title="Read a passage", annotations=_READS)
        async def read_passage(id: Annotated[str, Field(description="As search and ask return it.")]) -> Found:
            """Return one passage whole, by its id."""
            passages = await found(partial(current().passages, [id])) if is_unicode(id) else []
            if not passages:
                raise ToolError(f"The corpus has no passage {_shown(id)}. Find ids with search.")
            return _passage(passages[0])


def _passage(passage: Any) -> Found:
    return Found.model_validate(_sendable(passage.model_dump(mode="json")))


def _none_found(words: str) -> Any:
    """Return a result without passages that says so: clients show an empty list as nothing at all."""
    said = TextContent(type="text", text=f"No passage fits {_shown(words)}. Try other words.")
    return CallToolResult(content=[said], structured_content={"result": []})


def _length(most: int) -> dict[str, Any]:
    return {"minLength": 1, "maxLength": most}


def _text(name: str, text: str, most: int) -> str:
    """Return what a client asks or searches for without spaces around it."""
    if not is_unicode(text):
        raise ToolError(f"{name} is not valid Unicode.")
    if not text.strip():
        raise ToolError(f"{name} is empty: send 1 to {most:,} characters.")
    if len(text) > most:
        raise ToolError(f"{name} is too long: send 1 to {most:,} characters, not {len(text):,}.")
    return text.strip()


def _k(value: object) -> object:
    """Refuse what is not a number of passages, with the range; pydantic would take "3" and true for numbers."""
    whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
    if not whole or not 1 <= value <= MOST_PASSAGES:  # type: ignore[operator]  # it is a number
        raise PydanticCustomError("k", "should be a whole number from 1 to {most}", {"most": MOST_PASSAGES})
    return value


def _problem(error: ValidationError) -> str:
    """Return in one sentence which argument is wrong, what it should be, and what it is."""
    first = error.errors(include_url=False)[0]
    name = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        return f"{name} is missing."
    return f"{name} {first['msg'].removeprefix('Input ')}, got {_shown(first['input'])}."


def _shown(value: object) -> str:
    return one_line(repr(value) if isinstance(value, str) else json.dumps(value), _SHOWN)


def _sendable(value: Any) -> Any:
    """Return a value of JSON without lone surrogates, which a model can write, and which UTF-8 cannot state."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {name: _sendable(each) for name, each in value.items()}
    return [_sendable(each) for each in value] if isinstance(value, list) else value


@dataclass
class Wire:
    """What messages come and go on, as the SDK reads and writes it.

    Reads and writes are done in threads that nothing waits for, since nobody can interrupt a read, not even Ctrl-C.

    Args:
        incoming: What the client writes.
        outgoing: What the client reads.
    """

    incoming: BinaryIO
    outgoing: BinaryIO
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _ended: bool = False

    async def lines(self) -> AsyncIterator[str]:
        """Yield the lines that are messages, and answer the others: the SDK would drop them in silence."""
        while line := await in_thread(self.incoming.readline):
            text = line.decode(errors="replace").strip()
            if text and (refusal := _refusal(text)) is not None:
                await self.write(f"{refusal}\n")
            elif text:
                yield text
        self._ended = True

    async def write(self, text: str) -> None:
        """Write a text, and wait until it is on its way.

        After Ctrl-C the process may end as soon as this returns: what is being written is then waited for, too, but not
        long, since a client that reads nothing more would never let it go.

        Raises:
            BrokenPipeError: The client sends nothing more, and reads nothing.
        """
        async with self._writing:
            written = in_thread(partial(self._write, text.encode()))
            try:
                if await unless_left(asyncio.shield(written), self._unread()) is None:
                    raise BrokenPipeError
            except asyncio.CancelledError:
                with anyio.move_on_after(LAST_WRITE_SECONDS, shield=True):
                    await written
                raise

    async def flush(self) -> None:
        """Return at once, since nothing is held back."""

    async def _unread(self) -> None:
        while not self._closed():
            await asyncio.sleep(1)
        await asyncio.sleep(UNREAD_SECONDS)

    def _closed(self) -> bool:
        """Return whether the client sends nothing more, also where what it has sent is not read yet.

        The SDK reads no further while it waits for an answer to be written.
        """
        if self._ended or not hasattr(select, "poll"):  # Windows
            return self._ended
        looking, hung_up = select.poll(), select.POLLHUP | getattr(select, "POLLRDHUP", 0)
        looking.register(self.incoming, hung_up)
        return any(seen & hung_up for _, seen in looking.poll(0))

    def _write(self, data: bytes) -> bool:
        self.outgoing.write(data)
        self.outgoing.flush()
        return True


def _refusal(line: str) -> str | None:
    """Return the answer to a line that is no message of JSON-RPC, e.g. one with a lone surrogate; None to others."""
    import mcp_types
    from pydantic import ValidationError

    try:
        mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            said = mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message=f"Not valid JSON: {first['ctx']['error']}.")
        else:
            said = mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message="Not a message of JSON-RPC 2.0.")
        refusal = mcp_types.JSONRPCError(jsonrpc="2.0", id=_id(line), error=said)
        return refusal.model_dump_json(by_alias=True, exclude_unset=True)
    return None


def _id(line: str) -> int | str | None:
    """Return the id of a request that cannot be read whole, so that its client need not wait; None if it has none."""
    try:
        message: Any = json.loads(line)  # which reads lone surrogates
        found = message["id"] if "method" in message else None
        if isinstance(found, str):
            found.encode()
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return found if isinstance(found, int | str) and not isinstance(found, bool) else None


@contextlib.contextmanager
def claimed() -> Iterator[Wire]:
    """Keep standard input and output for messages during the block.

    Nothing else can be read then, and what anything else prints (own code, libraries, other processes) goes to standard
    error.
    """
    _flush()
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        # Never closed: a thread may be reading or writing until the process ends.
        yield Wire(os.fdopen(incoming, "rb", closefd=False), os.fdopen(outgoing, "wb", closefd=False))
    finally:
        _flush()
        os.dup2(incoming, 0)
        os.dup2(outgoing, 1)
        os.close(nothing)


def _flush() -> None:
    """Write now what was printed and is held back, by Python and by the C library."""
    sys.stdout.flush()
    with contextlib.suppress(OSError, TypeError, AttributeError):  # a system whose C library is no part of the process
        ctypes.CDLL(None).fflush(None)


def serve_over_stdio(service: "Service", wire: Wire) -> None:
    """Offer a service as tools of MCP until the client ends, or Ctrl-C comes; questions in progress are then stopped.

    Raises:
        KeyboardInterrupt: SIGINT came, and nothing goes on.
    """

    interrupted: list[bool] = []

    async def answer() -> None:
        loop, task, before = asyncio.get_running_loop(), asyncio.current_task(), signal.getsignal(signal.SIGINT)
        assert task is not None

        def restore() -> None:
            if loop.remove_signal_handler(signal.SIGINT):
                signal.signal(signal.SIGINT, before)

        def interrupt() -> None:
            if interrupted:
                restore()
                loop.stop()  # a second Ctrl-C waits for nothing; an error raised here could lose what a task waits for
                return
            interrupted.append(True)
            # After a second one asyncio would log, at length, what the tasks of the SDK raise that it cancels.
            loop.set_exception_handler(lambda *_: None)
            task.cancel()

        with contextlib.suppress(NotImplementedError):  # Windows, where Ctrl-C ends the loop itself
            loop.add_signal_handler(signal.SIGINT, interrupt)  # which wakes the loop, whatever thread gets the signal
        try:
            await make_tools(service).run_over(wire.lines(), wire)
        finally:
            restore()

    try:
        try:
            asyncio.run(answer())
        except* BrokenPipeError:
            pass  # the client has ended, and reads no more
    except BaseException:
        if not interrupted:  # else the SDK was cancelled, with a message on its way perhaps, or by a second Ctrl-C
            raise
    if interrupted:
        signal.raise_signal(signal.SIGINT)  # for whoever counts them
