"""What completion adds to the references, and what becomes of a response beside "insufficient"."""

import pytest

from programs.self_completion import SelfCompletion
from signatures.refusals import REFUSAL
from signatures.self_completion import AnswerOrAbstain
from signatures.types import Passage
from tests.programs.fakes import traced
from tests.programs.self_completion import scripted_story as story

GAP, KNOWS, Shelves = story.GAP, story.KNOWS, story.Shelves
ids, reflection, replies = story.ids, story.reflection, story.replies
PARTLY = reflection(False, "Ansa Merrow leads the harbour [1]; the sea is not named.")


def read(result):
    return [passage.id for passage in result.passages]


def test_references_that_are_found_again_leave_room_for_new_ones(scripted):
    scripted(replies([GAP, reflection()], ["missing"]))
    retrieve = Shelves(ids(5), missing=[*ids(5), *ids(7, "b")])
    result = SelfCompletion(retrieve)("Question?")
    assert read(result) == [*ids(5), *ids(5, "b")]
    assert retrieve.asked[1] == ("missing", 5 + 5)


def test_the_depth_of_the_search_is_bounded_by_k_and_the_cap(scripted):
    scripted(replies([GAP] * 4, ["one", "two", "three"]))
    retrieve = Shelves(ids(3), one=["b"], two=["c"], three=["d"])
    SelfCompletion(retrieve, k=3, cap=6)("Question?")
    assert [k for _, k in retrieve.asked] == [3, 3 + 3, 3 + 4, 3 + 5]


def test_several_queries_are_searched_at_once_and_share_the_room_of_the_turn(scripted):
    engine = scripted(replies([GAP, reflection()], [["sea of Quillon", "birth of Merrow"]]))
    retrieve = Shelves(ids(5), **{"sea of Quillon": ["a1", *ids(3, "b")], "birth of Merrow": ["c0", "b0", "c1"]})
    result = SelfCompletion(retrieve)("Question?")
    assert retrieve.batches == [["sea of Quillon", "birth of Merrow"]]
    assert read(result)[5:] == ["b0", "c0", "b1", "c1", "b2"]
    hop = result.hops[1]
    assert (hop.question, hop.passage_ids) == ("sea of Quillon; birth of Merrow", read(result)[5:])
    assert (result.details["turns"], len(engine.requests)) == (1, 4)


def test_the_cap_holds_for_several_queries(scripted):
    scripted(replies([GAP, GAP], [["one", "two", "three"]]))
    retrieve = Shelves(ids(5), one=ids(4, "b"), two=ids(4, "c"), three=ids(4, "d"))
    result = SelfCompletion(retrieve, cap=7)("Question?")
    assert read(result)[5:] == ["b0", "c0"]
    assert retrieve.batches == [["one", "two"]]  # a third could add nothing


def test_empty_and_repeated_queries_are_not_asked(scripted):
    scripted(replies([GAP, GAP, reflection()], [["", " one ", "One!", "question"], ["ONE", "two"]]))
    retrieve = Shelves(ids(3), one=["b"], two=["c"])
    result = SelfCompletion(retrieve, k=3)("Question?")
    assert [query for query, _ in retrieve.asked] == ["Question?", "one", "two"]
    assert [hop.question for hop in result.hops] == ["Question?", "one", "two"]


def test_a_response_beside_insufficient_is_kept_instead_of_forcing_another(scripted):
    engine = scripted(replies([PARTLY], [""]))
    result = SelfCompletion(Shelves(ids(5)))("Question?")
    assert (result.response, result.citations, result.abstained) == (PARTLY["response"], ["a0"], False)
    (hop,) = result.hops
    assert (hop.verdict, hop.answer, hop.draft) == ("kept", PARTLY["response"], PARTLY["response"])
    assert result.details == {"turns": 0, "first_decision": "insufficient", "forced": False}
    assert len(engine.requests) == 3  # reflection, query, short answer


def test_beside_such_a_response_completion_goes_on(scripted):
    scripted(replies([PARTLY, reflection()], ["sea"]))
    result = SelfCompletion(Shelves(ids(5), sea=["b"]))("Question?")
    assert (result.response, [hop.verdict for hop in result.hops]) == (KNOWS, ["abstained", "answered"])
    assert (result.hops[0].answer, result.hops[0].draft) == ("", PARTLY["response"])


def test_the_last_response_given_is_kept_although_a_later_turn_declines(scripted):
    later = reflection(False, "She leads the harbour [1] of Quillon [6].")
    scripted(replies([PARTLY, later, GAP], ["one", "two"]))
    result = SelfCompletion(Shelves(ids(3), one=["b"], two=["c"]), k=3, turns=2)("Question?")
    assert (result.response, result.hops[-1].verdict) == (later["response"], "kept")


def test_a_kept_response_cites_no_reference_that_came_after_it(scripted):
    early = reflection(False, "She leads the harbour [1] of Quillon [6][9].")
    scripted(replies([early, GAP], ["sea"]))
    result = SelfCompletion(Shelves(ids(5), sea=["b"]), turns=1)("Question?")
    assert read(result) == [*ids(5), "b"]
    assert result.citations == ["a0"]
    assert result.response == "She leads the harbour [1] of Quillon [12][9]."
    assert result.hops[0].draft == early["response"]


@pytest.mark.parametrize(
    "declined",
    [
        *("抱歉，根据提供的资料无法回答这个问题。", "There is not enough information [1].", "Unknown [1]."),
        *("Sorry, the references do not contain the answer.", "Unfortunately, the passages do not mention the sea."),
    ],
)
def test_a_refusal_in_other_words_is_no_response_to_keep(scripted, declined):
    scripted(replies([reflection(False, declined)], [""]))
    result = SelfCompletion(Shelves(ids(5)))("Question?")
    assert (result.hops[-1].verdict, result.response) == ("forced", "Forced, but said [1].")


@pytest.mark.parametrize("knobs", [{"forced": False}, {"completion": False}], ids=str)
def test_where_nothing_is_forced_a_response_beside_insufficient_is_an_abstention(scripted, knobs):
    scripted(replies([PARTLY], [""]))
    result = SelfCompletion(Shelves(ids(5)), **knobs)("Question?")
    assert (result.response, result.abstained, result.hops[-1].verdict) == ("", True, "abstained")


def test_the_prompt_names_the_sentence_of_refusal_and_asks_first_what_is_missing():
    assert REFUSAL in AnswerOrAbstain.instructions
    assert list(AnswerOrAbstain.output_fields) == ["missing", "sufficient", "response"]


def test_without_references_the_control_answers_at_length_from_memory(scripted):
    engine = scripted(replies(memory="Ansa Merrow leads the harbour of Quillon."))
    result = SelfCompletion(**SelfCompletion.PRESETS["control"])("Question?", passages=[])
    assert (result.response, result.abstained) == ("Ansa Merrow leads the harbour of Quillon.", False)
    assert (result.passages, result.citations, result.hops[0].verdict) == ([], [], "answered")
    asked = f"{engine.requests[0].system} {engine.prompts[0]}"
    assert "with what the passages say" not in asked
    assert "one to four full sentences" in asked


def test_without_references_a_forced_answer_comes_from_memory(scripted):
    scripted(replies([GAP], [""]))
    result = SelfCompletion(Shelves())("Question?")
    assert (result.response, result.hops[-1].verdict, result.citations) == ("Remembered.", "forced", [])


@pytest.mark.parametrize(("passages", "predictor"), [([], "memory"), ([Passage(id="g", text="Given.")], "answering")])
def test_the_predictor_that_answered_is_in_the_trace(scripted, passages, predictor):
    scripted(replies())
    program = SelfCompletion(reflection=False, short=False)
    _, trace = traced(program, "Question?", passages=passages)
    assert [entry[0] for entry in trace] == [getattr(program, predictor)]
