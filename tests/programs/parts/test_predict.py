import dspy
import pytest

from programs.parts.predict import attempt, retract, withdraw


@pytest.fixture
def replies(scripted):
    """Return three predictors' replies in a trace: two of one, then one of another."""
    scripted(lambda system, user: {"answer": "same"})
    one, other = dspy.Predict("question -> answer"), dspy.Predict("question -> answer")
    with dspy.context(trace=[]):
        yield one, other, [attempt(predictor, question="q") for predictor in (one, one, other)]


def test_an_unreadable_reply_is_none(scripted):
    scripted(lambda system, user: "?")
    assert attempt(dspy.Predict("question -> answer, why"), question="q") is None


def test_only_the_last_reply_of_the_named_predictor_is_retracted(replies):
    one, other, given = replies
    retract(one)
    assert len(dspy.settings.trace) == 3
    retract(other)
    assert [entry[2] is reply for entry, reply in zip(dspy.settings.trace, given, strict=False)] == [True, True]


def test_replies_are_withdrawn_wherever_they_stand_and_told_apart_by_identity(replies):
    _, _, (first, second, third) = replies
    withdraw([second, None])
    assert [id(entry[2]) for entry in dspy.settings.trace] == [id(first), id(third)]


def test_without_a_trace_there_is_nothing_to_withdraw(scripted):
    scripted(lambda system, user: {"answer": "same"})
    with dspy.context(trace=None):
        withdraw([attempt(dspy.Predict("question -> answer"), question="q")])
