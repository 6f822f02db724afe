"""What a server states about tokens counts if it can be tokens; a wrong statement never costs the answer."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from dspy.lm15 import Config, Message, Request

from programs.lms.servers.chat import ChatEngine, CompletionsEngine
from programs.lms.servers.usage import stated_usage

ODD = [
    {"prompt_tokens": "12", "completion_tokens": "3"},
    {"prompt_tokens": -500, "completion_tokens": -5},
    {"prompt_tokens": 0, "completion_tokens": 0},
    {"prompt_tokens": 1.5, "completion_tokens": True},
    {"completion_tokens_details": "none"},
    ["none"],
    "none",
    None,
]
YES = Request(model="m", messages=(Message.user("Is water wet?"),), config=Config(max_tokens=4, logprobs=5))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    more: Any = None  # keys of the reply and of its choice


@pytest.fixture
def server() -> Iterator[_Server]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

        def do_POST(self) -> None:
            of_reply, of_choice = running.more
            choice = {"message": {"content": "yes"}, "text": "yes", "finish_reason": "stop", **of_choice}
            content = json.dumps({"choices": [choice], **of_reply}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with _Server(("127.0.0.1", 0), Handler) as running:
        Thread(target=running.serve_forever, daemon=True, kwargs={"poll_interval": 0.01}).start()
        yield running
        running.shutdown()


@pytest.mark.parametrize("usage", ODD, ids=str)
@pytest.mark.parametrize("kind", [ChatEngine, CompletionsEngine])
def test_an_odd_usage_leaves_the_answer_and_is_no_statement(kind: Any, usage: Any, server: _Server) -> None:
    server.more = {"usage": usage}, {}
    engine = kind(f"http://127.0.0.1:{server.server_address[1]}/v1", "m")
    reply = engine.complete(YES)
    engine.close()
    assert reply.message.text == "yes"
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.reasoning_tokens) == (None, None, None)


@pytest.mark.parametrize("logprobs", [{"content": [{}]}, {"content": ["yes"]}, {"content": 7}, ["yes"], "yes"], ids=str)
def test_log_probabilities_of_another_form_leave_the_answer(logprobs: Any, server: _Server) -> None:
    server.more = {}, {"logprobs": logprobs}
    engine = ChatEngine(f"http://127.0.0.1:{server.server_address[1]}/v1", "m")
    reply = engine.complete(YES)
    engine.close()
    assert (reply.message.text, reply.logprobs) == ("yes", None)


def test_tokens_that_are_stated_count_and_those_of_thinking_are_estimated() -> None:
    stated = stated_usage({"prompt_tokens": 12, "completion_tokens": 10}, thinking="abcd", answer="a")
    assert (stated.input_tokens, stated.output_tokens, stated.reasoning_tokens) == (12, 10, 8)
