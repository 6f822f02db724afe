import dspy
import pytest

from programs.lms.adapter import ChatForm
from programs.parts.fanout import in_parallel
from programs.parts.meter import metered, record
from programs.parts.yes_no_scores import YesNoQuestion, YesNoScores
from signatures.types import Passage


class Supports(dspy.Signature):
    """Do the passages support the claim?"""

    passages: list[Passage] = dspy.InputField()
    claim: str = dspy.InputField()
    supported: bool = dspy.OutputField()


PREDICT, OTHER = dspy.Predict(Supports), dspy.Predict(Supports)


def asking(claim: str = "c", *, predictor=PREDICT, score: float | None = None, id: str = "p") -> YesNoQuestion:
    return YesNoQuestion(predictor, passages=[Passage(id=id, text="t", score=score)], claim=claim)


@pytest.fixture
def numbers(scripted):
    """Return an engine that gives P(yes) as a plain number: 0.9 for what is sure, "?" for what is odd."""
    return scripted(
        lambda system, user: (
            "?" if "odd" in user else "[[ ## probability ## ]]\n" + ("0.9" if "sure" in user else "0.2")
        ),
        ChatForm(probability_mode="verbalised"),
    )


def test_the_same_question_is_asked_once(numbers):
    scores = YesNoScores()
    scores.ask(dict(enumerate([asking("sure"), asking("sure"), asking("sure", score=0.3)])))
    assert scores.ask({"a": asking("sure"), "b": asking("other")}) == {"a": 0.9, "b": 0.2}
    assert len(numbers.requests) == 2
    assert scores.mode == "verbalised"


def test_another_predictor_or_passage_makes_another_question(numbers):
    YesNoScores().ask(dict(enumerate([asking(), asking(predictor=OTHER), asking(id="q")])))
    assert len(numbers.requests) == 3


def test_an_unparseable_reply_is_remembered_as_that(numbers):
    scores = YesNoScores()
    assert scores.ask({1: asking("odd")}) == {1: None}
    assert scores.ask({2: asking("odd")}) == {2: None}
    assert scores.mode is None
    assert len(numbers.requests) == 1


def test_without_questions_nothing_is_asked(numbers):
    scores = YesNoScores()
    assert scores.ask({}) == {}
    assert scores.mode is None
    assert numbers.requests == []


def test_scores_asked_for_in_parallel_take_one_round(numbers):
    scores = YesNoScores()
    with metered() as meter:
        first, second = in_parallel(
            lambda: record(rounds=1) or scores.ask({"a": asking("sure")}), lambda: scores.ask({"b": asking()})
        )
    assert (first, second) == ({"a": 0.9}, {"b": 0.2})
    assert meter.rounds == 1
