"""An answer of which the LM is not sure is read again in reverse order, and the surer one is kept."""

import pytest

from programs.single_step.rag import RAG
from signatures.types import Passage
from tests.programs.fakes import traced

QUESTION = "Where was Ansa Merrow born?"
PASSAGES = [Passage(id=name, text=f"{name} lies in the sea.") for name in ("Quillon", "Tarn", "Orn")]
UNSURE, SURER = [("Tarn", 0.25)], [("Orn", 0.75)]


def replying(first, second):
    """Reply with the first where the passages stand in order, and with the second where they do not."""
    return lambda system, user: first if user.index("Quillon lies") < user.index("Orn lies") else second


def test_an_unsure_answer_is_read_again_in_reverse_order_and_the_surer_one_is_kept(scored):
    engine = scored(replying(UNSURE, SURER))
    made, trace = traced(RAG(reread=True), QUESTION, passages=PASSAGES)
    assert made.answer == "Orn"
    assert made.details == {"confidence": 0.75, "probabilities": [0.25, 0.75]}
    assert [passage.id for passage in made.passages] == ["Quillon", "Tarn", "Orn"]
    assert len(engine.requests) == 2
    assert [entry[2].answer for entry in trace] == ["Orn"]  # what was overridden is no demonstration


@pytest.mark.parametrize("second", [[("Orn", 0.125)], UNSURE, [("", 1.0)]], ids=["less sure", "as sure", "unparseable"])
def test_an_answer_that_is_no_surer_leaves_the_first(scored, second):
    scored(replying(UNSURE, second))
    made, trace = traced(RAG(reread=True), QUESTION, passages=PASSAGES)
    assert (made.answer, made.stop_reason, made.details["confidence"]) == ("Tarn", "done", 0.25)
    assert [entry[2].answer for entry in trace] == ["Tarn"]


@pytest.mark.parametrize(
    ("share", "reread", "passages"),
    [(0.8, True, PASSAGES), (0.25, False, PASSAGES), (0.25, True, PASSAGES[:1])],
    ids=["sure", "off", "one passage"],
)
def test_it_is_read_once_where_the_lm_is_sure_or_there_is_no_other_order(scored, share, reread, passages):
    engine = scored(lambda system, user: [("Tarn", share)])
    made = RAG(reread=reread)(QUESTION, passages=passages)
    assert (made.answer, len(engine.requests)) == ("Tarn", 1)
    assert made.details == {"confidence": pytest.approx(share), "probabilities": [pytest.approx(share)]}


def test_an_lm_without_log_probabilities_reads_once_and_no_confidence_is_stated(scripted):
    engine = scripted(lambda system, user: {"answer": "Tarn"})
    made = RAG(reread=True)(QUESTION, passages=PASSAGES)
    assert (made.answer, made.details, len(engine.requests)) == ("Tarn", {}, 1)


def test_an_unparseable_reply_is_an_abstention(scripted):
    scripted(lambda system, user: "?")
    made = RAG(reread=True)(QUESTION, passages=PASSAGES)
    assert (made.answer, made.abstained, made.stop_reason) == ("", True, "unparseable")


def test_the_bound_on_calls_has_the_second_reading():
    assert (RAG().max_calls(), RAG(reread=True).max_calls()) == (1, 2)
