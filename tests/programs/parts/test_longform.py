"""Marks that point to passages, and the short answer out of a long one."""

import dspy
import pytest

from programs.parts.longform import cited_passages, gives_answer, short_answer
from signatures.reading import ReadAnswer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("response", "cited"),
    [
        ("She was born on Quillon [2].", ["p1"]),
        ("She was born on Quillon.[2][1] It lies far out.", ["p1", "p0"]),
        ("Both agree [1, 3] and [3,1].", ["p0", "p2"]),
        ("Nobody knows [9][0].", []),
        ("No mark, [] and [a] are none.", []),
    ],
)
def test_marks_of_every_style_point_to_passages(passages, response, cited):
    assert cited_passages(response, passages[:4]) == cited


def test_the_reader_sees_the_response_without_marks_and_nothing_else(scripted):
    engine = scripted(lambda system, user: {"answer": "Quillon"})
    assert short_answer(dspy.Predict(ReadAnswer), "Where?", "She was born on Quillon [2].") == "Quillon"
    (request,) = engine.requests
    assert "[1] She was born on Quillon.\n" in request.messages[-1].text


@pytest.mark.parametrize(
    "response", ["", " [2] ", "[1][2]", "I'm sorry, I cannot answer the question based on the provided references."]
)
def test_marks_alone_and_refusals_say_nothing_and_cost_no_call(scripted, response):
    engine = scripted(lambda system, user: {"answer": "Quillon"})
    assert not gives_answer(response)
    assert short_answer(dspy.Predict(ReadAnswer), "Where?", response) == ""
    assert engine.requests == []


@pytest.mark.parametrize("reply", ["", {"answer": " "}])
def test_with_an_unparseable_reply_of_the_reader_the_response_is_the_answer(scripted, reply):
    scripted(lambda system, user: reply)
    assert short_answer(dspy.Predict(ReadAnswer), "Where?", "On Quillon [1].") == "On Quillon."


def test_without_a_reader_nothing_is_asked(scripted):
    engine = scripted(lambda system, user: {"answer": "Quillon"})
    assert short_answer(None, "Where?", "On Quillon [1].") == "On Quillon."
    assert engine.requests == []
