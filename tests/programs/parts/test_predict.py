import dspy
import pytest

from programs.parts.prediction import drop_from_trace, try_predict


@pytest.fixture
def replies(scripted):
    """Return three replies in a trace: two of one predictor, then one of another."""
    scripted(lambda system, user: {"answer": "same"})
    one, other = dspy.Predict("question -> answer"), dspy.Predict("question -> answer")
    with dspy.context(trace=[]):
        yield [try_predict(predictor, question="q") for predictor in (one, one, other)]


def test_an_unparseable_reply_is_none(scripted):
    scripted(lambda system, user: "?")
    assert try_predict(dspy.Predict("question -> answer, why"), question="q") is None


def test_none_and_a_reply_that_is_not_in_the_trace_are_ignored(replies):
    drop_from_trace(None, dspy.Prediction(answer="same"))
    assert [id(entry[2]) for entry in dspy.settings.trace] == [id(reply) for reply in replies]


def test_replies_are_dropped_anywhere_in_the_trace_and_distinguished_by_identity(replies):
    first, second, third = replies
    drop_from_trace(second, None)
    assert [id(entry[2]) for entry in dspy.settings.trace] == [id(first), id(third)]


def test_without_a_trace_there_is_nothing_to_drop(scripted):
    scripted(lambda system, user: {"answer": "same"})
    with dspy.context(trace=None):
        drop_from_trace(try_predict(dspy.Predict("question -> answer"), question="q"))
