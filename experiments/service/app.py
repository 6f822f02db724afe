"""The routes of the service."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response, StreamingResponse

from experiments.service import chat, documentation
from experiments.service.answering import Answering, Event
from experiments.service.failures import Failure, Refused, failure_of
from experiments.service.guards import Guards
from experiments.service.leaving import unless_left
from experiments.service.models import UNREADABLE, Asked, Chat, Searched, is_unicode
from experiments.service.searching import Searching
from signatures.types import Retriever

_PAGE = Path(__file__).parent / "page"
_KEEP_ALIVE = 10.0  # seconds between two signs of life of a stream
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}


@dataclass(frozen=True)
class Service:
    """What is served.

    Args:
        answering: Answers questions.
        retrieve: Its retriever; None if the program searches nothing.
        about: What `/v1/info` says: `program`, `title`, `lm`, `corpus`, `max_calls`.
        token: That requests must state; None for none.
        hosts: Names that the Host header may have; None for any.
    """

    answering: Answering
    retrieve: Retriever | None
    about: dict[str, Any] = field(default_factory=dict)
    token: str | None = None
    hosts: tuple[str, ...] | None = None


def make_app(service: Service) -> FastAPI:
    """Return the ASGI application of a service."""
    app = FastAPI(
        title="verihop", version=metadata.version("verihop"), docs_url=None, redoc_url=None,
        description="Answers multi-hop questions over a corpus, and shows the evidence.",
    )  # fmt: skip
    _add_failures(app)
    _add_about(app, service)
    _add_answers(app, service)
    _add_retrieval(app, service)
    _add_page(app)
    limits = service.answering.limits
    app.add_middleware(_Heads)
    app.add_middleware(Guards, token=service.token, hosts=service.hosts, body_bytes=limits.body_bytes)
    return app


class _Heads:
    """Answers HEAD as GET; the server leaves the body out."""

    def __init__(self, app: Any):
        self._application = app

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        await self._application({**scope, "method": "GET"} if scope.get("method") == "HEAD" else scope, receive, send)


def _failed(failure: Failure) -> JSONResponse:
    return JSONResponse(failure.as_dict(), failure.status, failure.headers)


def _add_failures(app: FastAPI) -> None:
    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        return _failed(error.failure)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if first["type"] == "model_attributes_type" and sent != "application/json":
            return _failed(Failure(415, "invalid_request", "Send JSON, with Content-Type: application/json."))
        if first["type"] == "json_invalid":
            said = f"The body is not valid JSON, at character {first['loc'][-1]}: {first['ctx']['error']}."
            return _failed(Failure(422, "invalid_request", said[:300]))
        place = ".".join(str(part) for part in first["loc"] if part != "body")
        return _failed(Failure(422, "invalid_request", f"{place + ': ' if place else ''}{first['msg']}"[:300]))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        kind = "not_found" if error.status_code == 404 else "invalid_request"
        return _failed(Failure(error.status_code, kind, str(error.detail)))

    @app.exception_handler(Exception)
    async def internal(request: Request, error: Exception) -> Response:
        return _failed(failure_of(error))


def _add_about(app: FastAPI, service: Service) -> None:
    @app.get("/health", summary="Whether the service is ready; needs no token")
    async def health() -> dict[str, Any]:
        return {"status": "ok", "version": app.version, "token_required": service.token is not None}

    @app.get("/v1/info", summary="The program, its LM and corpus, the limits, and what is being done now")
    async def info() -> dict[str, Any]:
        limits = vars(service.answering.limits)
        return {**service.about, "limits": limits, "counts": vars(service.answering.counts)}

    @app.get("/v1/models", summary="The program as a model, for clients of OpenAI's API")
    async def models() -> dict[str, Any]:
        entry = {"id": service.about.get("program", "verihop"), "object": "model", "created": 0, "owned_by": "verihop"}
        return {"object": "list", "data": [entry]}


def _add_answers(app: FastAPI, service: Service) -> None:
    @app.post(
        "/v1/answers",
        summary="Answer a question: answer, hops, passages, citations, costs",
        description=f"`unreadable`: {UNREADABLE[0].lower()}{UNREADABLE[1:]}",
    )
    async def answers(asked: Asked, request: Request) -> Response:
        events = await _begun(service, asked.question)
        if asked.stream:
            return _stream(_as_sse(events))
        return await _unless_left(request, _last(events))

    @app.post("/v1/chat/completions", summary="The same in the form of OpenAI's chat completions")
    async def completions(asked: Chat, request: Request) -> Response:
        if not asked.question().strip():
            said = "messages: none with the role user has text; the last such message is the question."
            raise Refused(Failure(422, "invalid_request", said))
        events = await _begun(service, asked.question())
        model = asked.model or str(service.about.get("program", "verihop"))
        if asked.stream:
            usage = bool((asked.stream_options or {}).get("include_usage"))
            return _stream(chat.chunks(events, model, usage=usage))
        return await _unless_left(request, _last(events, lambda answer: chat.completion(answer, model)))


async def _begun(service: Service, question: str) -> AsyncIterator[Event]:
    """Return the events of a question of which the first has happened.

    Raises:
        Refused: The question is blank, too long or no text, or the queue is full.
    """
    most = service.answering.limits.question_characters
    if not is_unicode(question):
        raise Refused(Failure(422, "invalid_request", "question: it is not valid Unicode."))
    if not question.strip():
        raise Refused(Failure(422, "invalid_request", "question: it is empty."))
    if len(question) > most:
        raise Refused(Failure(413, "too_large", f"A question may have at most {most:,} characters."))
    events = service.answering.events(question.strip())
    first = await anext(events)

    async def all_of_them() -> AsyncIterator[Event]:
        try:
            yield first
            async for event in events:
                yield event
        finally:
            await events.aclose()  # type: ignore[attr-defined]  # it is a generator

    return all_of_them()


async def _last(
    events: AsyncIterator[Event], shape: Callable[[dict[str, Any]], dict[str, Any]] = lambda answer: answer
) -> Response:
    async for event in events:
        if event.kind == "answer":
            return _json(shape(event.data))
        if event.kind == "error":
            found = event.data["error"]
            return _failed(Failure(found["status"], found["type"], found["message"]))
    raise AssertionError("a question ends with an answer or an error")


def _json(value: dict[str, Any]) -> Response:
    # As ASCII, because a lone surrogate, which a model can write, is not valid in UTF-8.
    return Response(json.dumps(value), media_type="application/json")


async def _unless_left(request: Request, work: Awaitable[Response]) -> Response:
    """Return the response, or end the work when the client leaves."""
    response = await unless_left(work, _left(request))
    return Response(status_code=499) if response is None else response  # which nobody reads


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _as_sse(events: AsyncIterator[Event]) -> AsyncIterator[str]:
    async for event in events:
        yield f"event: {event.kind}\ndata: {json.dumps(event.data)}\n\n"


def _stream(lines: AsyncIterator[str]) -> Response:
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_kept_alive(lines), media_type="text/event-stream", headers=headers)


async def _kept_alive(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    """Yield the lines, and a comment whenever there was none for a while, so that proxies keep the connection."""
    following = asyncio.ensure_future(anext(lines, None))
    try:
        while True:
            done, _ = await asyncio.wait((following,), timeout=_KEEP_ALIVE)
            if not done:
                yield ": still answering\n\n"
                continue
            if (line := following.result()) is None:
                return
            yield line
            following = asyncio.ensure_future(anext(lines, None))
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await lines.aclose()  # type: ignore[attr-defined]  # it is a generator


def _add_retrieval(app: FastAPI, service: Service) -> None:
    limits = service.answering.limits
    most = limits.question_characters
    searching = None if service.retrieve is None else Searching(service.retrieve, limits)

    @app.post("/retrieve", summary="Passages for queries, in the form of Search-R1's retrieval server")
    async def retrieve(searched: Searched, request: Request) -> Response:
        if searching is None:
            raise Refused(Failure(404, "not_found", "This service has no index."))
        if len(searched.queries) > limits.queries:
            raise Refused(Failure(413, "too_large", f"At most {limits.queries} queries at a time."))
        if bad := [place for place, query in enumerate(searched.queries) if not is_unicode(query)]:
            raise Refused(Failure(422, "invalid_request", f"queries.{bad[0]}: it is not valid Unicode."))
        if any(len(query) > most for query in searched.queries):
            raise Refused(Failure(413, "too_large", f"A query may have at most {most:,} characters."))
        return await _unless_left(request, _found(searching, searched))


async def _found(searching: Searching, searched: Searched) -> Response:
    shape = partial(_document, scored=searched.return_scores)
    return _json({"result": await searching.many(searched.queries, searched.topk, shape)})


def _document(passage: Any, *, scored: bool) -> dict[str, Any]:
    """Return a passage as Search-R1 reads it: its title in quotes on the first line, then its text."""
    title = " ".join(passage.title.split())
    document = {**passage.model_dump(exclude={"score"}, mode="json"), "contents": f'"{title}"\n{passage.text}'}
    return {"document": document, "score": passage.score} if scored else document


def _add_page(app: FastAPI) -> None:
    for file in sorted(path for path in _PAGE.iterdir() if path.suffix in _KINDS):  # not README.md
        _add_file(app, file)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(documentation.page(app.openapi()))


def _add_file(app: FastAPI, file: Path) -> None:
    headers = {"Cache-Control": "no-cache"}

    @app.get("/" if file.name == "page.html" else f"/{file.name}", include_in_schema=False)
    async def send() -> Response:
        return FileResponse(file, media_type=_KINDS[file.suffix], headers=headers)
