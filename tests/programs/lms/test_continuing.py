"""Signatures that continue a text: messages, replies, thinking, and how each server is asked to go on."""

from typing import Any

import dspy
import pytest
from dspy.lm15 import Message, Request, Response, ThinkingPart, Usage

from programs.lms.adapter import ChatForm, JsonForm
from programs.lms.calls.metered import metered_lm
from programs.lms.servers.chat import ChatEngine, CompletionsEngine
from programs.parts.prediction import try_predict
from signatures.plain_text import Continuation, continues_text


class GoOn(dspy.Signature):
    """Go on."""

    question: str = dspy.InputField()
    text: str = dspy.InputField()
    continuation: Continuation = dspy.OutputField()


class Plain(dspy.Signature):
    """Answer."""

    question: str = dspy.InputField()
    continuation: str = dspy.OutputField()


FORMS = pytest.mark.parametrize("form", [ChatForm, JsonForm])


@FORMS
def test_the_messages_are_the_instruction_and_the_text(form):
    demo = {"question": "q1", "text": "a <think>", "continuation": "b</think>"}
    inputs = {"question": "q2 <think>[[ ## x ## ]]", "text": "<think>c</think> <|im_end|>"}
    assert form().format(GoOn, [demo, {"question": "half"}], inputs) == [
        {"role": "user", "content": "Go on. Question: q1\n"},
        {"role": "assistant", "content": "a <think>b</think>"},
        {"role": "user", "content": "Go on. Question: q2 < think>[x]\n"},
        {"role": "assistant", "content": "<think>c</think> < |im_end|>"},
    ]
    assert form().format(GoOn, [], {"question": "q", "text": ""}) == [
        {"role": "user", "content": "Go on. Question: q\n"}
    ]


@FORMS
def test_only_such_signatures_are_continued(form):
    assert continues_text(GoOn)
    assert continues_text(GoOn.with_instructions("Other."))
    assert not continues_text(Plain)
    assert form().format(Plain, [], {"question": "q"})[0]["role"] == "system"


@FORMS
def test_a_reply_is_kept_as_it_is(form, scripted):
    scripted(lambda system, user: " \n[[ ## x ## ]] {1} <b>\n", form())
    reply = dspy.Predict(GoOn)(question="q", text="t")
    assert reply.continuation == " \n[[ ## x ## ]] {1} <b>\n"


@FORMS
def test_an_empty_reply_is_unparseable(form, scripted):
    scripted(lambda system, user: " \n", form())
    assert try_predict(dspy.Predict(GoOn), question="q", text="") is None


@pytest.mark.parametrize("echo", ["<think>a</think>\n<answer>", "<think>\na\n</think><answer>", ""])
def test_a_text_that_is_repeated_in_front_of_the_reply_is_taken_out(scripted, echo):
    scripted(lambda system, user: f"{echo} Tren </answer>")
    reply = dspy.Predict(GoOn)(question="q", text="<think>a</think>\n<answer>")
    assert reply.continuation == " Tren </answer>"


@FORMS
def test_training_data_ends_with_the_whole_text(form):
    made = form().format_finetune_data(GoOn, [], {"question": "q", "text": "a"}, {"continuation": "b"})
    assert [message["content"] for message in made["messages"]] == ["Go on. Question: q\n", "ab"]


class Thinker:
    """Replies with thinking that its server took out of the text."""

    supports_response_schema = True

    def __init__(self, *parts: Any):
        self.parts = parts

    def __deepcopy__(self, memo: dict) -> "Thinker":
        return self

    def complete(self, request: Request) -> Response:
        message = Message.assistant(list(self.parts))
        return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=Usage())


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([ThinkingPart("why"), dspy.lm15.TextPart("<search>q")], "<think>why</think>\n<search>q"),
        ([ThinkingPart("why <search>q")], "<think>why <search>q"),
    ],
)
def test_thinking_is_part_of_the_text(parts, text):
    lm = metered_lm("thinker/x", engine=Thinker(*parts), cache=False)
    with dspy.context(lm=lm, adapter=JsonForm()):
        assert dspy.Predict(GoOn)(question="q", text="").continuation == text


@pytest.mark.parametrize(
    ("dialect", "fields"),
    [
        ("vllm", {"continue_final_message": True, "add_generation_prompt": False}),
        ("sglang", {"continue_final_message": True}),
        ("llamacpp", {}),
        ("openai", {}),
    ],
)
def test_a_server_is_asked_to_continue_the_last_message(server, dialect, fields):
    engine = ChatEngine(server.base, "m", dialect=dialect)
    server.text = " goes on"
    with dspy.context(lm=metered_lm("s/m", engine=engine, cache=False), adapter=ChatForm()):
        for text in ("", "It"):
            assert dspy.Predict(GoOn)(question="q", text=text).continuation == " goes on"
    engine.close()
    (_, _, first), (_, _, second) = server.seen
    names = {"continue_final_message", "add_generation_prompt"}
    assert names.isdisjoint(first)
    assert {name: second[name] for name in names if name in second} == fields
    assert second["messages"] == [
        {"role": "user", "content": "Go on. Question: q\n"},
        {"role": "assistant", "content": "It"},
    ]


def test_a_completion_model_goes_on_behind_the_text(server):
    engine = CompletionsEngine(server.base, "m")
    with dspy.context(lm=metered_lm("s/m", engine=engine, cache=False), adapter=ChatForm()):
        dspy.Predict(GoOn)(question="q", text="It")
    engine.close()
    assert server.seen[0][2]["prompt"] == "Question:\nGo on. Question: q\n\n\nAnswer:\nIt"
