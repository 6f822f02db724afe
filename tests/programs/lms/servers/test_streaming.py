"""Streamed replies: their events make the reply that is not streamed; a stream that is cut is no reply."""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import dspy
import pytest
from dspy import lm15
from dspy.clients.engines.stream_guard import checked_stream
from dspy.lm15 import Config, Message, Request, ResponseStream

from programs.lms.calls.transport import Transport
from programs.lms.connect import ModelTraits, connect
from programs.lms.servers.chat import ChatEngine
from programs.lms.servers.streaming import event_values
from signatures.common.errors import UserNotice
from tests import loopback
from tests.programs.lms.servers import scripted

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
DONE = b"data: [DONE]\n\n"
USAGE = {"prompt_tokens": 12, "completion_tokens": 3}


def chunk(finish: str | None = None, usage: Any = None, **delta: Any) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}] if delta or finish else []
    return f"data: {json.dumps({'choices': choices, 'usage': usage}, ensure_ascii=False)}\n\n".encode()


def chunked(*pieces: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    framed = b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces)
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + framed + end


def whole(content: Any, finish: str = "stop", **message: Any) -> bytes:
    choice = {"message": {"content": content, **message}, "finish_reason": finish}
    body = json.dumps({"choices": [choice], "usage": USAGE}).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


@pytest.fixture
def serve() -> Iterator[Callable[..., tuple[Any, ChatEngine]]]:
    """Return a function that starts a server with scripts and returns it with an engine for it."""
    with contextlib.ExitStack() as opened:

        def start(*scripts: Any, **settings: Any) -> tuple[Any, ChatEngine]:
            server = scripted.ScriptedServer(*scripts)
            opened.callback(server.close)
            engine = ChatEngine(server.base, "m", **settings)
            opened.callback(engine.close)
            return server, engine

        yield start


def request(**config: Any) -> Request:
    return Request(model="s/m", messages=(Message.user("Is it?"),), config=Config(**config))


def streamed(engine: ChatEngine, **config: Any) -> tuple[list[str], Any]:
    """Return the fragments of the answer and the response."""
    asked = request(**config)
    stream = ResponseStream(checked_stream(engine.stream(asked)), asked)
    return list(stream), stream.response


def parts_of(response: Any) -> list[tuple[str, str]]:
    return [(part.type, part.text) for part in response.message.parts]


def test_text_comes_as_it_is_written_and_usage_at_the_end(serve) -> None:
    pieces = [chunk(content="", role="assistant"), chunk(content="Zü"), chunk(content="rich"), chunk("stop"),
              chunk(usage=USAGE), DONE]  # fmt: skip
    server, engine = serve([chunked(*pieces), chunked(*pieces)])
    texts, response = streamed(engine, max_tokens=9)
    assert texts == ["Zü", "rich"]
    assert (response.finish_reason, response.usage.input_tokens, response.usage.output_tokens) == ("stop", 12, 3)
    body = json.loads(server.requests[0][1].partition(b"\r\n\r\n")[2])
    assert (body["stream"], body["stream_options"], body["max_tokens"]) == (True, {"include_usage": True}, 9)
    streamed(engine)
    assert [number for number, _ in server.requests] == [0, 0]  # the connection is kept


SPLITS = [1, 2, 3, 7, 1000]  # characters in a fragment


@pytest.mark.parametrize("length", SPLITS)
@pytest.mark.parametrize(
    "content",
    [
        "Paris",
        "",
        " <think>It may be Rome.</think>\n\nParis",
        "<think></think>\n<think>Again.</think>Paris",
        "<thinking>no end",
        "[THINK]so[/THINK]",
        "<b>Paris</b>",
        "<think",
        '{"answer": "a </think> b"}',
    ],
)
def test_a_streamed_reply_is_the_reply_that_is_not_streamed(serve, content, length) -> None:
    fragments = [content[start : start + length] for start in range(0, len(content), length)] or [""]
    pieces = [*(chunk(content=fragment) for fragment in fragments), chunk("stop"), chunk(usage=USAGE), DONE]
    _, engine = serve([whole(content), chunked(*pieces)])
    complete = engine.complete(request())
    response = streamed(engine)[1]
    assert parts_of(response) == parts_of(complete)
    assert response.usage == complete.usage


def test_thinking_whose_beginning_is_in_the_template_is_told_apart_once_it_is_known(serve) -> None:
    content = "Rome? No.</think>Paris"
    pieces = [chunk(content="Rome? No.</th"), chunk(content="ink>Pa"), chunk(content="ris"), chunk("stop"), DONE]
    _, engine = serve([whole(content), chunked(*pieces)])
    complete = engine.complete(request())  # as the probe of `connect` is
    texts, response = streamed(engine)
    assert texts == ["Pa", "ris"]
    assert parts_of(response) == parts_of(complete)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thinking_in_a_field_of_its_own_is_a_part_before_the_answer(serve, field) -> None:
    pieces = [chunk(**{field: "Rome? "}), chunk(**{field: "No."}), chunk(content="Paris"), chunk("stop"), DONE]
    _, engine = serve([chunked(*pieces)])
    assert parts_of(streamed(engine)[1]) == [("thinking", "Rome? No."), ("text", "Paris")]


def test_hidden_thinking_that_took_the_whole_reply_has_no_answer(serve) -> None:
    usage = {"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 9}}
    _, engine = serve([chunked(chunk(content=""), chunk("length"), chunk(usage=usage), DONE)])
    response = streamed(engine)[1]
    assert [part.type for part in response.message.parts] == ["thinking"]
    assert response.finish_reason == "length"


def test_log_probabilities_are_those_of_the_whole_answer(serve) -> None:
    def scored(text: str, value: float) -> bytes:
        token = {"token": text, "logprob": value, "top_logprobs": [{"token": text, "logprob": value}]}
        choice = {"index": 0, "delta": {"content": text}, "logprobs": {"content": [token]}}
        return f"data: {json.dumps({'choices': [choice]})}\n\n".encode()

    _, engine = serve([chunked(scored("ye", -0.5), scored("s", -0.25), chunk("stop"), DONE)])
    response = streamed(engine, logprobs=3)[1]
    assert [(token.token, token.logprob) for token in response.logprobs] == [("ye", -0.5), ("s", -0.25)]


def test_a_server_that_does_not_stream_is_read_all_the_same(serve) -> None:
    _, engine = serve([whole("Paris")])
    assert streamed(engine)[0] == ["Paris"]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (chunked(chunk(content="Par"), end=b""), lm15.TransportError),  # the connection breaks inside the stream
        (chunked(chunk(content="Par")), lm15.TransportError),  # the stream ends inside the reply
        (HEAD + b"Connection: close\r\n\r\n" + chunk(content="Par") + b"data: {", lm15.TransportError),
        (chunked(chunk(content="Par"), b"data: {oops\n\n", DONE), lm15.ServerError),
        (chunked(chunk(content="Par"), b"data: [1]\n\n", DONE), lm15.ServerError),
        (chunked(chunk(content="Par"), b'data: {"choices": 7}\n\n', DONE), lm15.ServerError),
        (chunked(chunk(content="Par"), b'data: {"error": {"message": "overloaded"}}\n\n'), lm15.ServerError),
        (chunked(chunk(content=None), chunk("stop"), DONE), lm15.ServerError),
    ],
)
def test_a_stream_that_is_cut_or_malformed_is_an_error_after_what_came(serve, answer, kind) -> None:
    _, engine = serve([answer], [chunked(chunk(content="Paris"), chunk("stop"), DONE)])
    texts = []
    with pytest.raises(kind):
        for event in engine.stream(request()):
            texts += [event.delta.text] if event.type == "delta" else []
    assert texts == (["Par"] if b"Par" in answer else [])
    assert streamed(engine)[0] == ["Paris"]  # over a new connection


def test_a_refusal_to_state_usage_is_met_by_streaming_without_it(serve) -> None:
    body = json.dumps({"error": {"message": "Unknown field: 'stream_options'"}}).encode()
    refusal = b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    server, engine = serve([refusal, chunked(chunk(content="Paris"), chunk("stop"), DONE)])
    with pytest.warns(UserNotice, match="stream_options"):
        texts, response = streamed(engine)
    assert texts == ["Paris"]
    assert response.usage.output_tokens is None
    assert b"stream_options" not in server.requests[1][1]


def test_a_streamed_refusal_is_no_text(serve) -> None:
    """Before, it was the answer."""
    _, engine = serve([chunked(chunk(content=None, refusal="I can't"), chunk(refusal=" help."), chunk("stop"), DONE)])
    texts, response = streamed(engine)
    assert ("".join(texts), response.finish_reason) == ("", "content_filter")


def test_a_reply_that_is_given_up_closes_its_connection(serve) -> None:
    answer = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    first = chunk(content="Par")
    server, engine = serve([answer + f"{len(first):x}\r\n".encode() + first + b"\r\n", scripted.OK])
    events = engine.stream(request())
    assert [next(events).type, next(events).type] == ["start", "delta"]
    events.close()
    assert server.closed[0].wait(20)


@pytest.mark.parametrize("way", ["argument", "extension", "transport"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_may_have_a_time_limit_of_its_own(serve, way, stream, monkeypatch) -> None:
    slowly = [chunked(chunk(content="P"))[:-5], *[b":"] * 500]  # a comment without an end
    server, engine = serve([slowly], transport=Transport(timeout=60.0 if way == "transport" else 3600.0))
    late = SimpleNamespace(monotonic=lambda: time.monotonic() + 600 * len(server.requests))  # once the request is there
    for module in ("http_connection", "http_pool"):
        monkeypatch.setattr(f"programs.lms.servers.{module}.time", late)
    asked = request(extensions={"timeout_seconds": 60, "seed_of_mine": 1} if way == "extension" else None)
    limit = {"timeout": 60} if way == "argument" else {}
    with pytest.raises(lm15.TimeoutError, match="within 60 s"):
        list(engine.stream(asked, **limit)) if stream else engine.complete(asked, **limit)
    assert server.closed[0].wait(20)
    assert b"timeout_seconds" not in server.requests[0][1]
    assert (b"seed_of_mine" in server.requests[0][1]) is (way == "extension")


@pytest.mark.parametrize("seconds", [0, -1, "5", True, float("nan")])
def test_a_time_limit_is_a_positive_number(seconds) -> None:
    engine = ChatEngine("http://127.0.0.1:9/v1", "m")
    with pytest.raises(lm15.InvalidRequestError, match="positive number"):
        engine.complete(request(), timeout=seconds)


def test_events_are_read_from_pieces_of_any_size() -> None:
    text = (
        ': open\r\n\r\nevent: message\r\nid: 1\r\ndata: {"a":\r\ndata:  "ü"}\r\n\r\n\n\ndata:[DONE]\n\ndata: {"cut": 1'
    )
    content = text.encode()
    for length in (1, 2, 5, len(content)):
        pieces = [content[start : start + length] for start in range(0, len(content), length)]
        assert list(event_values(pieces)) == [{"a": "ü"}, None]


def test_dspy_streams_a_program_on_a_server() -> None:
    fragments = ['{"answer": ', '"Pa', 'ris"}']

    class Handler(loopback.JsonHandler):
        protocol_version = "HTTP/1.1"

        def post(self) -> None:
            if not self.body().get("stream"):
                self.reply(200, json.loads(whole("yes").partition(b"\r\n\r\n")[2]))
                return
            events = b"".join([*(chunk(content=text) for text in fragments), chunk("stop"), chunk(usage=USAGE), DONE])
            self.wfile.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(events) + events)

    server = loopback.Loopback(Handler)
    traits = ModelTraits(probability_mode="samples")
    connection = connect("m", api_base=server.base, cache=False, traits=traits)

    async def run() -> list[Any]:
        with connection.use():
            program = dspy.streamify(dspy.Predict("question -> answer"), async_streaming=True)
            return [item async for item in program(question="Where?")]

    *chunks, prediction = asyncio.run(run())
    connection.close()
    server.close()
    assert prediction.answer == "Paris"
    assert [one["choices"][0]["delta"]["content"] for one in map(dict, chunks)][:3] == fragments
