"""CoT-SC: samples that are truly as many as asked for, and the vote on their answers."""

import json
import uuid

import dspy
import pytest
from dspy.lm15 import Message, Response, TextPart, Usage

from programs.catalog import build
from programs.closed_book.cot_sc import CoTSC
from programs.lms.adapter import JsonForm
from programs.lms.calls.metered import metered_lm


class Seeded:
    """An LM whose reply depends on the seed, as that of an engine in this process does."""

    supports_response_schema = True
    supported_params = ("temperature", "max_tokens", "response_format", "seed")

    def __init__(self, *answers):
        self.answers, self.requests = answers, []

    def complete(self, request):
        self.requests.append(request)
        number = request.config.seed
        answer = self.answers[number - 1]
        text = "?" if answer is None else json.dumps({"reasoning": f"reason {number}", "answer": answer})
        usage = Usage(input_tokens=10, output_tokens=5, total_tokens=15)
        message = Message.assistant([TextPart(text)])
        return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)

    def __deepcopy__(self, memo):
        return self


@pytest.fixture
def vote():
    """Return a function that asks for one sample per answer, None for an unparseable reply."""

    def ask(*answers, question="Question?"):
        engine = Seeded(*answers)
        lm = metered_lm(f"scripted/{uuid.uuid4()}", engine=engine, cache=False)
        program = CoTSC(samples=len(answers))
        with dspy.context(lm=lm, adapter=JsonForm(), disable_history=True, trace=[]):
            result = program(question)
            return result, [reply.answer for _, _, reply in dspy.settings.trace]

    return ask


def test_each_sample_is_a_call_of_its_own_even_with_a_cache():
    engine = Seeded("Oslo", "Rome", "Rome", "Bern")
    lm = metered_lm(f"scripted/{uuid.uuid4()}", engine=engine, cache=True)
    with dspy.context(lm=lm, adapter=JsonForm(), disable_history=True):
        program = CoTSC(samples=4, temperature=0.9)
        first, again = program("Question?"), program("Question?")
    assert sorted(request.config.seed for request in engine.requests) == [1, 2, 3, 4]
    assert {request.config.temperature for request in engine.requests} == {0.9}
    assert len({str(request.messages) for request in engine.requests}) == 1
    assert first.answer == again.answer == "Rome"


def test_the_majority_decides_and_its_earliest_chain_is_the_response(vote):
    result, _ = vote("Oslo", "the Amber Sea", "Amber sea.", "Amber Sea")
    assert (result.answer, result.response) == ("the Amber Sea", "reason 2\nthe Amber Sea")
    assert result.details == {"answers": ["Oslo", "the Amber Sea", "Amber sea.", "Amber Sea"], "agreement": 3 / 4}
    assert (result.hops, result.passages, result.citations, result.stop_reason) == ([], [], [], "done")


def test_of_equally_frequent_answers_the_earliest_wins(vote):
    assert vote("Rome", "Oslo", "Oslo", "Rome")[0].answer == "Rome"


def test_empty_unparseable_and_unknown_replies_do_not_vote(vote):
    result, _ = vote(None, "", "unknown", "unknown", None, "Oslo")
    assert (result.answer, result.details["agreement"]) == ("Oslo", 1 / 6)
    assert result.details["answers"] == ["", "", "unknown", "unknown", "", "Oslo"]


def test_without_a_vote_it_abstains_and_nothing_becomes_a_demonstration(vote):
    result, kept = vote(None, "unknown", "", "It cannot be determined.")
    assert (result.answer, result.response, result.abstained) == ("", "", True)
    assert (result.stop_reason, result.details["agreement"]) == ("done", 0.0)
    assert result.details["answers"] == ["", "unknown", "", "It cannot be determined."]
    assert kept == []


def test_no_parseable_reply_is_an_abstention(vote):
    result, _ = vote(None, None)
    assert (result.answer, result.abstained, result.stop_reason) == ("", True, "unparseable")


def test_outvoted_chains_become_no_demonstrations(vote):
    _, kept = vote("Rome", "Oslo", "oslo", None)
    assert kept == ["Oslo", "oslo"]


def test_chinese_answers_are_compared_by_their_words(vote):
    assert vote("灰海", "琥珀海。", "琥珀海", question="奎隆岛在哪个海中？")[0].answer == "琥珀海。"


def test_the_number_of_calls_is_the_bound(scripted):
    engine = scripted(lambda system, user: {"reasoning": "r", "answer": "a"})
    program = build("cot_sc")
    program("Question?", passages=[])
    assert len(engine.requests) == program.max_calls() == 40
