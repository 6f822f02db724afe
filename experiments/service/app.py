"""The routes of the service, of which one answers in the form of OpenAI's chat completions.

The content of its message is the long answer with its marks, if the program writes one, else the short answer; hops are
sent as reasoning (`reasoning_content`, as vLLM and others call it); cited passages with a URL are annotations of the
kind `url_citation`; and `verihop` has everything that `/v1/answers` returns. Earlier messages are the turns that the
last one follows up; what it is taken to mean is the first line of the reasoning.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import escape
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from experiments.service.answering import Answering, Event, Failure, Refused, Searching, failure_of
from experiments.service.guards import Guards, log_refusal
from experiments.service.leaving import unless_left
from experiments.service.metrics import Counted, Metrics
from programs.parts.conversation import MOST_TURNS
from signatures.types import Retriever, Turn

if TYPE_CHECKING:
    from experiments.pipeline.opened import OpenedProgram

DONE = "data: [DONE]\n\n"
_NONE = ("No answer was found in the passages.", "No answer: a reply of the language model could not be read.")


def completion(answer: dict[str, Any], model: str) -> dict[str, Any]:
    """Return a chat completion of an answer of `/v1/answers`."""
    message = {
        "role": "assistant",
        "content": _content(answer),
        "reasoning_content": _understood(answer.get("understood"))
        + "".join(_reasoning(number, hop) for number, hop in enumerate(answer["hops"], start=1)),
        "annotations": _annotations(answer),
    }
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    head = _head(answer["id"], model, "chat.completion")
    return {**head, "choices": [choice], "usage": _usage(answer), "verihop": answer}


async def chunks(events: AsyncIterator[Event], model: str, *, usage: bool) -> AsyncIterator[str]:
    """Yield the events of an answer as those of a streamed chat completion; an error ends it without `[DONE]`."""
    id = ""
    async for event in events:
        if event.kind == "started":
            if not id:
                id = event.data["id"]
                yield _chunk(id, model, {"role": "assistant", "content": ""})
        elif event.kind == "understood":
            yield _chunk(id, model, {"reasoning_content": _understood(event.data)})
        elif event.kind == "hop":
            yield _chunk(id, model, {"reasoning_content": _reasoning(event.data["number"], event.data["hop"])})
        elif event.kind == "answer":
            answer = event.data
            yield _chunk(id, model, {"content": _content(answer), "annotations": _annotations(answer)}, verihop=answer)
            yield _chunk(id, model, {}, finish_reason="stop")
            if usage:
                yield _data({**_head(id, model, "chat.completion.chunk"), "choices": [], "usage": _usage(answer)})
            yield DONE
        else:
            yield _data(event.data)


def _head(id: str, model: str, kind: str) -> dict[str, Any]:
    return {"id": id, "object": kind, "created": int(time.time()), "model": model}


def _chunk(id: str, model: str, delta: dict[str, Any], finish_reason: str | None = None, **more: Any) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
    return _data({**_head(id, model, "chat.completion.chunk"), "choices": [choice], **more})


def _data(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value)}\n\n"


def _content(answer: dict[str, Any]) -> str:
    # Only the program's replies are meant, not that about a follow-up.
    none = _NONE[answer.get("unreadable") is not None]
    return answer["response"] or answer["answer"] or none


def _understood(understood: dict[str, Any] | None) -> str:
    return f"Understood as: {understood['question']}\n" if understood else ""


def _reasoning(number: int, hop: dict[str, Any]) -> str:
    return f"{number}. {hop['question']}\n" + (f"   {hop['answer']}\n" if hop["answer"] else "")


def _annotations(answer: dict[str, Any]) -> list[dict[str, Any]]:
    cited = [passage for passage in answer["passages"] if passage["id"] in answer["citations"]]
    return [
        {"type": "url_citation", "url_citation": {"url": passage["url"], "title": passage["title"]}}
        for passage in cited
        if isinstance(passage.get("url"), str) and passage["url"].startswith(("http://", "https://"))
    ]


def _usage(answer: dict[str, Any]) -> dict[str, int]:
    prompt, completion = int(answer["cost"]["prompt_tokens"]), int(answer["cost"]["completion_tokens"])
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def page(schema: dict[str, Any]) -> str:
    """Return the HTML of an OpenAPI description."""
    routes = [
        _route(path, method, operation, schema)
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]
    title = f"{schema['info']['title']} {schema['info']['version']}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}: HTTP</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="stylesheet" href="page.css"><link rel="icon" href="data:,"></head><body>'
        f"<h1>{escape(title)}</h1><p>{escape(schema['info'].get('description', ''))} "
        'As <a href="openapi.json">OpenAPI</a>; <a href=".">ask a question</a>.</p>'
        + "".join(routes)
        + "</body></html>"
    )


def _route(path: str, method: str, operation: dict[str, Any], schema: dict[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    parts = [f"<h2><code>{method.upper()} {escape(path)}</code></h2>"]
    parts += [f"<p>{escape(operation[name])}</p>" for name in ("summary", "description") if name in operation]
    if body:
        fields = _resolved(body, schema)
        required = fields.get("required", [])
        rows = [_row(name, value, name in required) for name, value in fields.get("properties", {}).items()]
        example = (fields.get("examples") or [{name: _example(fields["properties"][name]) for name in required}])[0]
        parts.append(f"<dl>{''.join(rows)}</dl><pre>{escape(_curl(path, example))}</pre>")
    else:
        parts.append(f"<pre>{escape(f'curl http://localhost:8080{path}')}</pre>")
    return f"<section>{''.join(parts)}</section>"


def _resolved(value: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    name = value.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = schema["components"]["schemas"][name] if name else value
    return found


def _row(name: str, value: dict[str, Any], required: bool) -> str:
    kinds = [each.get("type", "") for each in value.get("anyOf", [value])]
    said = [" or ".join(kind for kind in kinds if kind), "required" if required else "", value.get("description", "")]
    if "default" in value:
        said.append(f"by default {json.dumps(value['default'])}")
    return f"<dt><code>{escape(name)}</code></dt><dd>{escape('; '.join(part for part in said if part))}</dd>"


def _example(value: dict[str, Any]) -> Any:
    return ["..."] if value.get("type") == "array" else "..."


def _curl(path: str, example: dict[str, Any]) -> str:
    return f"curl http://localhost:8080{path} -H 'Content-Type: application/json' -d '{json.dumps(example)}'"


UNREADABLE = (
    "The start of the first reply of the LM that could not be read; null if all could. With an empty answer it says "
    "why there is none."
)


def is_unicode(text: str) -> bool:
    """Return whether a text has no lone surrogate, which JSON can state and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Before(BaseModel):
    """An earlier question of the conversation and its answer."""

    model_config = ConfigDict(extra="forbid", strict=True)

    question: str = Field(description="As it was asked, or better as it was understood.")
    answer: str = Field("", description="Its answer; [n] marks are left out.")


class Asked(BaseModel):
    """A question."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"question": "Where was the founder of Ossa born?"}]},
    )

    question: str = Field(description="The question; not blank.")
    turns: list[Before] = Field(
        [],
        description=f"The conversation before, oldest first; the last {MOST_TURNS} are used. With any, one LM call "
        "makes the question self-contained; `understood` of the answer says what was asked instead, and how.",
    )
    stream: bool = Field(
        False,
        description="Send server-sent events: started, understood (with turns), hop (each as it settles), answer or "
        "error.",
    )


class Searched(BaseModel):
    """Queries, in the form that Search-R1 and its relatives send to their retrieval servers."""

    model_config = ConfigDict(
        extra="ignore",
        strict=True,
        json_schema_extra={"examples": [{"queries": ["founder of Ossa"], "topk": 3, "return_scores": True}]},
    )

    queries: list[str] = Field(min_length=1, description="Each is searched for by itself.")
    topk: int = Field(3, ge=1, le=100, description="Most passages of each query.")
    return_scores: bool = Field(False, description="Return each passage with its score.")


class Part(BaseModel):
    """A part of a message."""

    type: str
    text: str = ""


class Message(BaseModel):
    """A message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None

    def text(self) -> str:
        """Return its text, without pictures and other parts."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content or [] if part.type in ("text", "input_text"))


class Chat(BaseModel):
    """A request in the form of OpenAI's chat completions; settings of an LM have no effect and are accepted."""

    model_config = ConfigDict(
        extra="ignore",
        json_schema_extra={"examples": [{"messages": [{"role": "user", "content": "Where does the Ossa end?"}]}]},
    )

    messages: list[Message] = Field(
        min_length=1,
        description="The last message of the user is the question; those before are the turns that it follows up.",
    )
    model: str | None = Field(None, description="Returned as it is.")
    stream: bool = False
    stream_options: dict[str, Any] | None = None
    n: Literal[1] | None = None

    def question(self) -> str:
        """Return the last message of the user; "" if there is none."""
        return next((message.text() for message in reversed(self.messages) if message.role == "user"), "")

    def turns(self) -> list[Turn]:
        """Return the user's messages before the last one, each with what the assistant said until the next."""
        turns: list[Turn] = []
        for message in self.messages:
            if message.role == "user":
                turns.append(Turn(question=message.text()))
            elif message.role == "assistant" and turns and message.text() not in _NONE:
                answer = "\n".join(filter(None, (turns[-1].answer, message.text())))
                turns[-1] = Turn(question=turns[-1].question, answer=answer)
        return turns[:-1]


_PAGE = Path(__file__).parent / "page"
_KEEP_ALIVE = 10.0  # seconds between two signs of life of a stream
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}


@dataclass
class Service:
    """What is served.

    Args:
        answering: Answers questions.
        retrieve: Its retriever; None if the program searches nothing. Like the answerer it may be replaced, as
            `experiments.service.served` does: whoever uses it takes it once.
        about: What `/v1/info` says: `program`, `title`, `lm`, `corpus`, `index`, `max_calls`, and by `refused` why a
            new index or artifact is not used.
        token: That requests must state; None for none.
        hosts: Names that the Host header may have; None for any.
        opened: What answers, to be opened anew when its index has changed; None if it is not.
    """

    answering: Answering
    retrieve: Retriever | None
    about: dict[str, Any] = field(default_factory=dict)
    token: str | None = None
    hosts: tuple[str, ...] | None = None
    opened: "OpenedProgram | None" = None


def make_app(service: Service) -> FastAPI:
    """Return the ASGI application of a service."""
    app = FastAPI(
        title="verihop", version=metadata.version("verihop"), docs_url=None, redoc_url=None,
        description="Answers multi-hop questions over a corpus, and shows the evidence.",
        redirect_slashes=False,  # behind a proxy with TLS they would lead a token to http
    )  # fmt: skip
    metrics = Metrics(service.answering, lambda: service.about)
    _add_failures(app)
    _add_about(app, service, metrics)
    _add_answers(app, service, metrics)
    _add_retrieval(app, service)
    _add_page(app)
    limits = service.answering.limits
    app.add_middleware(_Heads)
    app.add_middleware(Guards, token=service.token, hosts=service.hosts, body_bytes=limits.body_bytes)
    app.add_middleware(Counted, metrics=metrics, paths={route.path for route in app.routes if isinstance(route, Route)})
    return app


class _Heads:
    """Answers HEAD as GET; the server leaves the body out."""

    def __init__(self, app: Any):
        self._application = app

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        await self._application({**scope, "method": "GET"} if scope.get("method") == "HEAD" else scope, receive, send)


def _failed(failure: Failure) -> JSONResponse:
    return JSONResponse(failure.as_dict(), failure.status, failure.headers)


def _refused(request: Request, failure: Failure) -> JSONResponse:
    log_refusal(failure, request.url.path)
    return _failed(failure)


def _add_failures(app: FastAPI) -> None:
    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        return _refused(request, error.failure)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if first["type"] == "model_attributes_type" and sent != "application/json":
            return _refused(request, Failure(415, "invalid_request", "Send JSON, with Content-Type: application/json."))
        if first["type"] == "json_invalid":
            said = f"The body is not valid JSON, at character {first['loc'][-1]}: {first['ctx']['error']}."
            return _refused(request, Failure(422, "invalid_request", said[:300]))
        place = ".".join(str(part) for part in first["loc"] if part != "body")
        return _refused(
            request, Failure(422, "invalid_request", f"{place + ': ' if place else ''}{first['msg']}"[:300])
        )

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        kind = "not_found" if error.status_code == 404 else "invalid_request"
        failure = Failure(error.status_code, kind, str(error.detail))
        # With a cause the body did not come, or not whole: what is sent of that is said by `Guards`.
        return _refused(request, failure) if error.__cause__ is None else _failed(failure)

    @app.exception_handler(Exception)
    async def internal(request: Request, error: Exception) -> Response:
        return _failed(failure_of(error))


def _add_about(app: FastAPI, service: Service, metrics: Metrics) -> None:
    @app.get("/health", summary="Whether the service lives; needs no token")
    async def health() -> dict[str, Any]:
        return {"status": "ok", "version": app.version, "token_required": service.token is not None}

    @app.get("/ready", summary="Whether questions are answered, or with status 503 why not; needs no token")
    async def ready() -> Response:
        why = service.answering.unready()
        refused = sorted(service.about.get("refused", ()))  # why is not for everyone
        return JSONResponse({"status": "ready", "refused": refused}) if why is None else _failed(why)

    @app.get("/v1/info", summary="The program, its LM and corpus, the limits, and what is being done now")
    async def info() -> dict[str, Any]:
        limits = vars(service.answering.limits)
        return {**service.about, "limits": limits, "counts": vars(service.answering.counts)}

    @app.get("/metrics", summary="Counts, times and costs of all requests, in the text format of Prometheus")
    async def counted() -> Response:
        return metrics.response()

    @app.get("/v1/models", summary="The program as a model, for clients of OpenAI's API")
    async def models() -> dict[str, Any]:
        entry = {"id": service.about.get("program", "verihop"), "object": "model", "created": 0, "owned_by": "verihop"}
        return {"object": "list", "data": [entry]}


def _add_answers(app: FastAPI, service: Service, metrics: Metrics) -> None:
    @app.post(
        "/v1/answers",
        summary="Answer a question: answer, hops, passages, citations, costs",
        description=f"`unreadable`: {UNREADABLE[0].lower()}{UNREADABLE[1:]}",
    )
    async def answers(asked: Asked, request: Request) -> Response:
        events = await _begun(service, metrics, asked.question, [Turn(**dict(turn)) for turn in asked.turns])
        if asked.stream:
            return _stream(_as_sse(events))
        return await _unless_left(request, _last(events))

    @app.post("/v1/chat/completions", summary="The same in the form of OpenAI's chat completions")
    async def completions(asked: Chat, request: Request) -> Response:
        if not asked.question().strip():
            said = "messages: none with the role user has text; the last such message is the question."
            raise Refused(Failure(422, "invalid_request", said))
        events = await _begun(service, metrics, asked.question(), asked.turns())
        model = asked.model or str(service.about.get("program", "verihop"))
        if asked.stream:
            usage = bool((asked.stream_options or {}).get("include_usage"))
            return _stream(chunks(events, model, usage=usage))
        return await _unless_left(request, _last(events, lambda answer: completion(answer, model)))


async def _begun(service: Service, metrics: Metrics, question: str, turns: Sequence[Turn]) -> AsyncIterator[Event]:
    """Return the events of a question of which the first has happened."""
    most = service.answering.limits.question_characters
    if not is_unicode(question):
        raise Refused(Failure(422, "invalid_request", "question: it is not valid Unicode."))
    if not question.strip():
        raise Refused(Failure(422, "invalid_request", "question: it is empty."))
    if len(question) > most:
        raise Refused(Failure(413, "too_large", f"A question may have at most {most:,} characters."))
    if not all(is_unicode(turn.question + turn.answer) for turn in turns):
        raise Refused(Failure(422, "invalid_request", "An earlier turn is not valid Unicode."))
    events = metrics.of_question(service.answering.events(question.strip(), turns))
    first = await anext(events)

    async def all_of_them() -> AsyncIterator[Event]:
        try:
            yield first
            async for event in events:
                yield event
        finally:
            await events.aclose()

    return all_of_them()


async def _last(
    events: AsyncIterator[Event], shape: Callable[[dict[str, Any]], dict[str, Any]] = lambda answer: answer
) -> Response:
    async for event in events:
        if event.kind == "answer":
            return _json(shape(event.data))
        if event.failure is not None:
            return _failed(event.failure)
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
    searching = Searching(limits)

    @app.post("/retrieve", summary="Passages for queries, in the form of Search-R1's retrieval server")
    async def retrieve(searched: Searched, request: Request) -> Response:
        if (current := service.retrieve) is None:
            raise Refused(Failure(404, "not_found", "This service has no index."))
        if len(searched.queries) > limits.queries:
            raise Refused(Failure(413, "too_large", f"At most {limits.queries} queries at a time."))
        if bad := [place for place, query in enumerate(searched.queries) if not is_unicode(query)]:
            raise Refused(Failure(422, "invalid_request", f"queries.{bad[0]}: it is not valid Unicode."))
        if any(len(query) > most for query in searched.queries):
            raise Refused(Failure(413, "too_large", f"A query may have at most {most:,} characters."))
        return await _unless_left(request, _found(searching, current, searched))


async def _found(searching: Searching, retrieve: Retriever, searched: Searched) -> Response:
    shape = partial(_document, scored=searched.return_scores)
    return _json({"result": await searching.many(retrieve, searched.queries, searched.topk, shape)})


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
        return HTMLResponse(page(app.openapi()))


def _add_file(app: FastAPI, file: Path) -> None:
    headers = {"Cache-Control": "no-cache"}

    @app.get("/" if file.name == "page.html" else f"/{file.name}", include_in_schema=False)
    async def send() -> Response:
        return FileResponse(file, media_type=_KINDS[file.suffix], headers=headers)
