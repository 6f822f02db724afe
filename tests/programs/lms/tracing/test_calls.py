"""Whoever listens is told each LM call: who asked, what was sent, what came back, what it took."""

import asyncio
import json
import uuid

import dspy
import pytest
from dspy.lm15 import Message, Response, TextPart, ThinkingPart, Usage
from dspy.utils.exceptions import AdapterParseError, LMServerError

from programs.lms.adapter import ChatForm, JsonForm
from programs.lms.calls.metered import metered_lm
from programs.lms.tracing.calls import observe_calls, records_of
from programs.parts.meter import metered
from programs.parts.prediction import stand_in
from programs.parts.threads import Started, fanout


class Reader(dspy.Module):
    def __init__(self):
        super().__init__()
        self.read = dspy.ChainOfThought("question -> answer")
        self.plan = dspy.Predict("question -> query")

    def forward(self, question):
        return self.read(question=question)


def reply(system, user):
    return {"reasoning": "so", "answer": "Ansa", "query": "gate"}


def test_a_call_says_who_asked_what_was_sent_and_what_came_back(scripted):
    engine, program, heard = scripted(reply), Reader(), []
    with observe_calls(heard.append), metered() as meter:
        program(question="Who keeps the gate?")
    (record,) = records_of(heard, program)
    assert (record["call"], record["predictor"], record["metric"]) == (1, "read.predict", None)
    assert [message["role"] for message in record["messages"]] == ["system", "user"]
    assert record["messages"][1]["content"] == engine.prompts[0]
    assert json.loads(record["replies"][0]["text"])["answer"] == "Ansa"
    assert record["replies"][0]["finish_reason"] == "stop"
    assert (record["prompt_tokens"], record["completion_tokens"], record["cached"]) == (10, 5, False)
    assert (record["error"], record["unreadable"]) == (None, None)
    assert 0 <= record["seconds"] < 60
    assert record["settings"]["response_format"]
    assert (meter.calls, meter.prompt_tokens, meter.rounds) == (1, 10, 1)  # the question's meter counts it once
    json.dumps(record)


def test_nobody_is_told_after_the_block_and_outer_listeners_are_told_as_well(scripted):
    scripted(reply)
    outer, inner, program = [], [], Reader()
    with observe_calls(outer.append):
        with observe_calls(inner.append):
            program(question="a")
        with observe_calls(None):
            program(question="b")
    program(question="c")
    assert (len(outer), len(inner)) == (2, 1)


def test_calls_of_threads_and_of_stand_ins_have_their_predictor(scripted):
    scripted(reply)
    heard, program = [], Reader()
    with observe_calls(heard.append):
        fanout([lambda: program(question="a"), lambda: stand_in(program.plan)(question="b")])
        assert Started(lambda: asyncio.run(program.plan.acall(question="c")), name="test").wait(30)
    records = records_of(heard, program)
    assert [record["call"] for record in records] == [1, 2, 3]
    assert sorted(record["predictor"] for record in records) == ["plan", "plan", "read.predict"]


def test_a_predictor_outside_the_program_is_named_by_its_signature(scripted):
    scripted(reply)
    heard = []
    with observe_calls(heard.append):
        dspy.Predict("question -> answer")(question="a")
    (record,) = records_of(heard, Reader())
    assert (record["predictor"], record["signature"]) == (None, "StringSignature")


def test_a_cached_reply_says_so(scripted):
    scripted(reply, cache=True)
    heard, program = [], Reader()
    with observe_calls(heard.append):
        program(question="a")
        program(question="a")
    first, second = records_of(heard, program)
    assert (first["cached"], second["cached"]) == (False, True)
    assert (second["prompt_tokens"], second["cached_tokens"]) == (0, 15)
    assert second["replies"] == first["replies"]


def test_a_reply_that_cannot_be_read_says_why(scripted):
    scripted(lambda system, user: {"reasoning": "so"})
    heard, program = [], Reader()
    with observe_calls(heard.append), pytest.raises(AdapterParseError):
        program(question="a")
    with observe_calls(heard.append), pytest.raises(AdapterParseError):
        asyncio.run(program.read.acall(question="b"))
    assert [record["unreadable"] for record in records_of(heard, program)] == ["missing: answer"] * 2
    assert heard[0].replies  # what it was


def test_retries_are_of_the_call_and_an_error_ends_it(no_waiting):
    class Failing:
        def __init__(self, times):
            self.times = times

        def complete(self, request):
            self.times -= 1
            if self.times >= 0:
                raise LMServerError("down", status=500)
            message = Message.assistant([TextPart("[[ ## query ## ]]\ngate")])
            usage = Usage(input_tokens=3, output_tokens=2, total_tokens=5)
            return Response(id=None, model=request.model, message=message, finish_reason="length", usage=usage)

    heard, program = [], Reader()
    for times in (2, 99):
        lm = metered_lm(f"scripted/{uuid.uuid4()}", engine=Failing(times), cache=False, temperature=0.5)
        with dspy.context(lm=lm, adapter=ChatForm()), observe_calls(heard.append):
            if times == 2:
                program.plan(question="a")
            else:
                with pytest.raises(Exception, match="down"):
                    program.plan(question="a")
    answered, failed = records_of(heard, program)
    assert (answered["retries"], answered["error"], answered["settings"]["temperature"]) == (2, None, 0.5)
    assert answered["replies"][0]["finish_reason"] == "length"
    assert (failed["replies"], failed["retries"]) == ([], 3)
    assert "down" in failed["error"]


def test_a_long_error_is_kept_up_to_2000_characters_without_part_of_a_key(scripted, monkeypatch):
    key = "sk-live-6f9a8b7c6d5e4f3e"
    monkeypatch.setenv("LAB_API_KEY", key)
    heard, program = [], Reader()
    for filling in (1500, 1950):

        def fail(system, user, filling=filling):
            raise ValueError("x" * filling + " " + key + "y" * 500)

        scripted(fail)
        with observe_calls(heard.append), pytest.raises(Exception, match="xxx"):
            program(question="a")
    first, second = (call.error for call in heard)
    assert "x" * 1500 + " ***yyy" in first
    assert len(second) < 2100
    assert key[:4] not in first + second


def test_thinking_is_kept_beside_the_reply():
    class Thinking:
        def complete(self, request):
            message = Message.assistant([ThinkingPart("well, the gate"), TextPart('{"query": "gate"}')])
            usage = Usage(input_tokens=3, output_tokens=2, total_tokens=5)
            return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)

    heard, program = [], Reader()
    lm = metered_lm("scripted/thinking", engine=Thinking(), cache=False)
    with dspy.context(lm=lm, adapter=JsonForm()), observe_calls(heard.append):
        program.plan(question="a")
    assert heard[0].replies == [{"text": '{"query": "gate"}', "thinking": "well, the gate", "finish_reason": "stop"}]
