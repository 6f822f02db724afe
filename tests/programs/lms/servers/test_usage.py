"""What a server states about tokens counts if it can be tokens; a wrong statement never costs the answer."""

from collections.abc import Iterator
from typing import Any

import pytest
from dspy.lm15 import Config, Message, Request

from programs.lms.servers.chat import ChatEngine, CompletionsEngine
from programs.lms.servers.streaming import stated_usage
from tests import loopback

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


@pytest.fixture
def server() -> Iterator[Any]:
    """A server whose `more` are keys of the reply and of its choice."""

    class Handler(loopback.JsonHandler):
        def post(self) -> None:
            self.body()
            of_reply, of_choice = running.more
            choice = {"message": {"content": "yes"}, "text": "yes", "finish_reason": "stop", **of_choice}
            self.reply(200, {"choices": [choice], **of_reply})

    running = loopback.Loopback(Handler)
    yield running
    running.close()


@pytest.mark.parametrize("usage", ODD, ids=str)
@pytest.mark.parametrize("kind", [ChatEngine, CompletionsEngine])
def test_an_odd_usage_leaves_the_answer_and_is_no_statement(kind: Any, usage: Any, server: Any) -> None:
    server.more = {"usage": usage}, {}
    engine = kind(server.base, "m")
    reply = engine.complete(YES)
    engine.close()
    assert reply.message.text == "yes"
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.reasoning_tokens) == (None, None, None)


@pytest.mark.parametrize("logprobs", [{"content": [{}]}, {"content": ["yes"]}, {"content": 7}, ["yes"], "yes"], ids=str)
def test_log_probabilities_of_another_form_leave_the_answer(logprobs: Any, server: Any) -> None:
    server.more = {}, {"logprobs": logprobs}
    engine = ChatEngine(server.base, "m")
    reply = engine.complete(YES)
    engine.close()
    assert (reply.message.text, reply.logprobs) == ("yes", None)


def test_tokens_that_are_stated_count_and_those_of_thinking_are_estimated() -> None:
    stated = stated_usage({"prompt_tokens": 12, "completion_tokens": 10}, thinking="abcd", answer="a")
    assert (stated.input_tokens, stated.output_tokens, stated.reasoning_tokens) == (12, 10, 8)
