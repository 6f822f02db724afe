"""RetroRAG: the two answers of a round, the verdict on them, and the answer that is returned."""

import pytest

from programs.lms.adapter import JsonForm
from programs.retro_rag import RetroRAG
from tests.programs.fakes import traced


def test_two_agreeing_answers_end_the_first_round(tell, retriever):
    story = tell(agreement=0.71)
    result = RetroRAG(retriever, k=2)("Question?")
    (hop,) = result.hops
    assert (hop.question, hop.answer, hop.draft, hop.verdict) == (
        "Question?",
        "Ansa Merrow",
        "Ansa Merrow",
        "accepted",
    )
    assert hop.passage_ids == ["p0", "p1"]
    assert result.answer == "Ansa Merrow"
    assert result.details == {
        "inferential_evidence": False,
        "rounds": 1,
        "answered": [1.0],
        "agreement": [0.71],
        "probability_mode": "verbalised",
    }
    assert story.count("inferring") == story.count("searching") == 0


def test_an_agreement_at_the_threshold_is_not_above_it(tell, retriever):
    tell(agreement=0.7)
    result = RetroRAG(retriever, max_rounds=3)("Question?")
    assert [hop.verdict for hop in result.hops] == ["disagreed", "disagreed", "final"]
    assert RetroRAG(retriever, max_rounds=3, threshold=0.69)("Question?").details["rounds"] == 1


def test_the_second_answer_is_drawn_at_temperature_one_and_anew_each_round(scripted, retriever, script):
    engine = scripted(script.Story(searching=""), JsonForm(probability_mode="verbalised"))
    with script.on_a_meter(engine):
        RetroRAG(retriever, max_rounds=3)("Question?")
    drawn = [request for request in engine.requests if script.kind_of(str(request.system)) == "monitoring"]
    assert [request.config.temperature for request in drawn] == [1.0] * 3
    assert len({request.config.seed for request in drawn}) == 3
    assert {request.config.temperature for request in engine.requests if request not in drawn} == {0.0}


def test_the_assessor_rejects_a_reply_that_is_no_answer(tell, retriever):
    tell(agreement=1.0, assessing=[0.2, 0.9], answering=["somewhere out at sea", "Ansa Merrow"])
    result = RetroRAG(retriever)("Question?")
    assert [hop.verdict for hop in result.hops] == ["no answer", "accepted"]
    assert result.answer == "Ansa Merrow"


@pytest.mark.parametrize("reply", ["unknown", "Unknown.", ""])
def test_nothing_and_unknown_are_refused_without_asking(tell, retriever, reply):
    story = tell(answering=reply, agreement=1.0)
    result = RetroRAG(retriever, max_rounds=2)("Question?")
    assert (result.answer, result.abstained) == ("", True)
    assert [hop.verdict for hop in result.hops] == ["no answer", "no answer"]
    assert story.count("assessing") == story.count("agreement") == 0


def test_a_second_answer_that_is_none_disagrees_without_asking(tell, retriever):
    story = tell(monitoring=["unknown", ""], agreement=1.0)
    result = RetroRAG(retriever, max_rounds=2)("Question?")
    assert [hop.verdict for hop in result.hops] == ["disagreed", "final"]
    assert result.details["agreement"] == [0.0, 0.0]
    assert story.count("agreement") == 0


def test_an_answer_refused_by_mistake_is_returned_if_the_last_is_unparseable(tell, retriever):
    tell(answering=["Ansa Merrow", "?"], assessing=0.1, agreement=1.0)
    result = RetroRAG(retriever, max_rounds=2)("Question?")
    assert (result.answer, result.abstained) == ("Ansa Merrow", False)


def test_the_last_answer_stands_when_the_rounds_run_out(tell, retriever):
    tell(answering=["one", "two", "three"])
    result = RetroRAG(retriever, max_rounds=3)("Question?")
    assert (result.answer, result.abstained) == ("three", False)
    assert [hop.answer for hop in result.hops] == ["one", "two", "three"]


def test_the_last_answer_is_the_output_although_the_assessor_rejects_it(tell, retriever):
    tell(answering=["one", "two"], assessing=[1.0, 0.1])
    result = RetroRAG(retriever, max_rounds=2)("Question?")
    assert (result.answer, [hop.verdict for hop in result.hops]) == ("two", ["disagreed", "final"])
    tell(answering=["one", "two"], assessing=0.1)
    result = RetroRAG(retriever, max_rounds=2)("Question?")
    assert (result.answer, [hop.verdict for hop in result.hops]) == ("two", ["no answer", "final"])


@pytest.mark.parametrize("reply", ["Cannot be determined from the passages.", "The answer is unknown"])
def test_a_last_answer_that_declines_in_other_words_is_no_output(tell, retriever, reply):
    tell(answering=["one", reply], assessing=1.0)
    result = RetroRAG(retriever, max_rounds=2)("Question?")
    assert (result.answer, [hop.verdict for hop in result.hops]) == ("one", ["disagreed", "no answer"])
    tell(answering=reply, assessing=1.0)
    result = RetroRAG(retriever, max_rounds=1)("Question?")
    assert (result.answer, result.abstained, result.hops[0].verdict) == ("", True, "no answer")


def test_where_the_last_is_none_the_latest_that_was_not_refused_stands(tell, retriever):
    tell(answering=["one", "two", "unknown"], assessing=[1.0, 0.1])
    assert RetroRAG(retriever, max_rounds=3)("Question?").answer == "one"
    tell(answering=["one", "unknown"])
    without = RetroRAG(retriever, max_rounds=2, evaluate_answer=False)("Question?")
    assert (without.answer, without.abstained) == ("one", False)
    tell(answering=["unknown"], assessing=[0.1])
    nothing = RetroRAG(retriever, max_rounds=2)("Question?")
    assert (nothing.answer, nothing.abstained) == ("", True)


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("evaluate", [True, False])
def test_the_last_round_does_not_offer_unknown_and_its_answer_is_the_output(scripted, script, rounds, evaluate):
    story = script.Obedient(monitoring="Ansa Merrow")
    scripted(story, JsonForm(probability_mode="verbalised"))
    result = RetroRAG(script.Batches(), max_rounds=rounds, evaluate_answer=evaluate)("Question?")
    assert (result.answer, result.abstained) == ("Ansa Merrow", False)
    assert [hop.answer for hop in result.hops] == ["unknown"] * (rounds - 1) + ["Ansa Merrow"]
    assert [hop.verdict for hop in result.hops] == ["no answer"] * (rounds - 1) + ["final"]
    assert story.count("concluding") == 1
    assert story.count("answering") == rounds - 1
    assert "concluding" not in story.offered


def test_the_last_answer_can_be_accepted(tell, retriever):
    story = tell(answering=["Bert Oyle", "Ansa Merrow"], agreement=[0.0, 1.0])
    result = RetroRAG(retriever, max_rounds=2)("Question?")
    assert [hop.verdict for hop in result.hops] == ["disagreed", "accepted"]
    assert [story.count(kind) for kind in ("answering", "concluding", "monitoring", "agreement")] == [1, 1, 2, 2]


@pytest.mark.parametrize("unparseable", ["agreement", "assessing", "monitoring"])
def test_an_unparseable_reply_does_not_stop_the_loop(tell, retriever, unparseable):
    tell(**{"agreement": 1.0, unparseable: "?"})
    result = RetroRAG(retriever, max_rounds=2)("Question?")
    assert [hop.verdict for hop in result.hops] == ["unparseable", "final"]
    assert result.answer == "Ansa Merrow"
    assert result.details["agreement"] == ([1.0, 1.0] if unparseable == "assessing" else [None, None])


def test_the_loop_outlives_every_unparseable_reply(tell, retriever):
    tell(answering=["?", "Ansa Merrow"], inferring="?", searching="?", naming="?", agreement=1.0)
    result = RetroRAG(retriever)("Question?")
    assert [(hop.answer, hop.verdict) for hop in result.hops] == [("", "unparseable"), ("Ansa Merrow", "accepted")]
    assert retriever.queries == ["Question?", "Question?"]


@pytest.mark.parametrize(
    ("knobs", "replies", "expected"),
    [
        ({}, {}, "final"),
        ({"evaluate_answer": False}, {}, "final"),
        ({}, {"agreement": 1.0}, "accepted"),
        ({}, {"assessing": 0.1}, "final"),
        ({}, {"answering": "unknown"}, "no answer"),
    ],
)
def test_the_verdict_of_the_last_round_is_final_unless_it_is_accepted_or_no_answer(
    tell, retriever, knobs, replies, expected
):
    tell(**replies)
    assert RetroRAG(retriever, max_rounds=1, **knobs)("Question?").hops[0].verdict == expected


def test_with_nothing_to_read_or_search_one_answer_from_memory_is_given(tell):
    story = tell(agreement=1.0)
    result, trace = traced(RetroRAG(), "Question?", passages=[])
    assert (result.answer, result.citations, result.stop_reason) == ("Ansa Merrow", [], "nothing found")
    assert [(hop.draft, hop.verdict) for hop in result.hops] == [(None, "final")]
    assert [kind for kind, _ in story.asked] == ["recalling_directly"]
    assert not trace


def test_an_answer_is_recalled_once_however_many_searches_find_nothing(tell):
    """Before, each round recalled it with the same prompt."""
    story = tell()
    result = RetroRAG(lambda query, k: [], max_rounds=3)("Question?")
    assert (result.answer, [hop.verdict for hop in result.hops]) == ("Ansa Merrow", [None, None, "final"])
    assert story.count("recalling_directly") == 1


def test_an_answer_that_was_read_stands_before_one_from_memory(tell, retriever):
    tell(answering=["read", "unknown"], assessing=[0.1])
    result = RetroRAG(retriever, max_rounds=3)("Question?", passages=[])
    assert [hop.verdict for hop in result.hops] == [None, "no answer", "no answer"]
    assert result.answer == "read"


def test_an_answer_from_memory_is_not_accepted_while_a_search_may_find_something(tell, retriever):
    story = tell(agreement=1.0)
    result = RetroRAG(retriever)("Question?", passages=[])
    assert [hop.verdict for hop in result.hops] == [None, "accepted"]
    assert (story.count("recalling_directly"), result.stop_reason) == (1, "finished")
    assert all("[1]" in prompt for prompt in story.prompts("answering", "monitoring"))
