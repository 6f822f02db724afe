"""Engines and servers that stand in for LMs."""

import json
import math
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import dspy
import pytest
from dspy.lm15 import Message, Request, Response, TextPart, TokenLogprob, Usage

from programs.lms.adapter import ChatForm, JsonForm
from programs.lms.calls.metered import metered_lm
from programs.lms.calls.reply_cache import ReplyCache, ReplyStore
from programs.lms.connect import Connection
from tests import loopback
from tests.conftest import ScriptedEngine

PATIENCE = 60  # seconds, for a machine that is busy; only what is broken waits that long


class EchoEngine:
    """Replies with what `reply` says, 10 tokens in and 5 out; keeps the requests."""

    supports_response_schema = False

    def __init__(self, reply: Callable[[Request], str] | str = "yes"):
        self.reply = reply
        self.requests: list[Request] = []

    def __deepcopy__(self, memo: dict) -> "EchoEngine":
        return self

    def complete(self, request: Request) -> Response:
        self.requests.append(request)
        text = self.reply if isinstance(self.reply, str) else self.reply(request)
        usage = Usage(input_tokens=10, output_tokens=5)
        message = Message.assistant([TextPart(text)])
        return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)


class FakeServer(loopback.Loopback):
    """An OpenAI-compatible server on loopback that answers from `replies` (the last one again and again)."""

    def __init__(self) -> None:
        self.text = "yes"
        self.top: dict[str, float] | None = {"Yes": -0.3, "No": -1.5, " yes": -3.0}
        self.failures: list[int] = []  # status codes to answer with first
        self.garbage = False
        self.seen: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        outer = self

        class Handler(loopback.JsonHandler):
            def get(self) -> None:
                self.answer(200, {"data": [{"id": "m", "max_model_len": 4096}]})

            def post(self) -> None:
                body = self.body()
                outer.seen.append((self.path, dict(self.headers), body))
                if outer.failures:
                    self.answer(outer.failures.pop(0), {"error": {"message": "try later"}})
                else:
                    self.answer(200, outer.completion(self.path, body))

            def answer(self, status: int, payload: dict[str, Any]) -> None:
                self.reply(status, b"<html>not json" if outer.garbage else payload)

        super().__init__(Handler)

    def completion(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
        if path.endswith("/chat/completions"):
            choice["message"] = {"role": "assistant", "content": self.text}
        else:
            choice["text"] = self.text
        if body.get("logprobs") and self.top is not None:
            alternatives = [{"token": token, "logprob": value, "bytes": None} for token, value in self.top.items()]
            choice["logprobs"] = {"content": [{**alternatives[0], "top_logprobs": alternatives}]}
        usage = {"prompt_tokens": 7, "completion_tokens": 1, "total_tokens": 8}
        return {"id": "x", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()
    yield fake
    fake.close()


@pytest.fixture
def echo() -> type[EchoEngine]:
    return EchoEngine


@pytest.fixture(autouse=True)
def own_cache(
    monkeypatch: pytest.MonkeyPatch, no_waiting: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Keep replies for one test only, and never wait between attempts; few tests write the file or need a folder."""
    store = ReplyStore(tmp_path_factory.getbasetemp() / f"{uuid.uuid4()}.sqlite", max_bytes=10_000_000)
    monkeypatch.setattr(dspy, "cache", ReplyCache(store))
    monkeypatch.setattr("programs.lms.connect.use_reply_cache", lambda: None)
    yield
    store.close()


def question_in(request):
    return request.messages[-1].text.split("[[ ## question ## ]]\n")[1].split("\n")[0]


def reply(request):
    """Reply to `rag` and `multihop`: the answer names the question."""
    question = question_in(request)
    return json.dumps({"reasoning": "so", "query": f"harbour {question}", "answer": f"answer to {question}"})


@pytest.fixture
def connected(echo):
    """Return a function that connects an engine with such replies; `hold` sees each request before the reply."""

    def connect(name="one", *, hold=lambda request: None, reply=reply, budget=None):
        engine = echo(lambda request: (hold(request), reply(request))[1])
        engine.supports_response_schema = True
        lm = metered_lm(f"scripted/{name}", engine=engine, cache=False, budget=budget)
        return Connection(name, lm, JsonForm(), None, "samples")

    return connect


@pytest.fixture
def answering_threads():
    """Return a function that returns the threads that still answer, when those whose question has ended are gone."""

    def at_work() -> list[threading.Thread]:
        threads = [thread for thread in threading.enumerate() if thread.name.startswith("answer")]
        for thread in threads:
            thread.join(PATIENCE)
        return [thread for thread in threads if thread.is_alive()]

    return at_work


class Scored(ScriptedEngine):
    """Replies with tokens and their probabilities; a text is one token of probability 1."""

    def complete(self, request):
        self.requests.append(request)
        said = self.reply(str(request.system), request.messages[-1].text)
        tokens = [(said, 1.0)] if isinstance(said, str) else said
        scores = tuple(TokenLogprob(token=token, logprob=math.log(share)) for token, share in tokens)
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant([TextPart("".join(token for token, _ in tokens))]),
            finish_reason="stop",
            usage=Usage(input_tokens=1, output_tokens=1, total_tokens=2),
            logprobs=scores if request.config.logprobs is not None else None,
        )


@pytest.fixture
def scored(scripted):
    """Return a function that puts a scripted LM into the settings whose replies have probabilities."""
    return lambda reply: scripted(reply, ChatForm(probability_mode="logprobs"), engine_class=Scored)
