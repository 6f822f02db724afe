import dspy
import pytest

from programs.parts.steps.generated import read_all, write_documents
from signatures.closed_book.genread import WriteDocument
from signatures.reading import ReadAnswer
from signatures.types import Passage


@pytest.fixture
def writing():
    return dspy.Predict(WriteDocument)


def test_one_document_is_written_at_the_temperature_of_the_lm(scripted, writing):
    engine = scripted(lambda system, user: {"document": "One line.\n\nAnother. "})
    assert [document.text for document in write_documents(writing, "Question?", size=5)] == ["One line. Another."]
    assert [request.config.temperature for request in engine.requests] == [None]


def test_samples_are_truly_as_many_as_asked_for(scripted, writing):
    engine = scripted(lambda system, user: {"document": "A document."}, cache=True)
    documents = write_documents(writing, "Question?", size=3, temperature=0.9)
    assert [document.id for document in documents] == ["document-1", "document-2", "document-3"]
    assert [request.config.temperature for request in engine.requests] == [0.9] * 3


@pytest.mark.parametrize("reply", ["?", {"document": ""}, {"document": " unknown. "}, {"document": "未知"}])
def test_a_reply_without_a_document_is_not_read_and_becomes_no_demonstration(scripted, writing, reply):
    scripted(lambda system, user: reply)
    with dspy.context(trace=[]):
        assert write_documents(writing, "Question?") == []
        assert dspy.settings.trace == []


def test_with_nothing_to_read_the_answer_is_from_memory_and_no_demonstration(scripted):
    scripted(lambda system, user: {"answer": "recalled" if "from what you know" in system else "read"})
    reading = dspy.Predict(ReadAnswer)
    with dspy.context(trace=[]):
        assert read_all(reading, "Question?", []) == ("recalled", "recalled")
        assert dspy.settings.trace == []
        assert read_all(reading, "Question?", [Passage(id="p", text="t")]) == ("read", "read")
        assert len(dspy.settings.trace) == 1


def test_an_unparseable_answer_is_empty(scripted):
    scripted(lambda system, user: "?")
    assert read_all(dspy.Predict(ReadAnswer), "Question?", []) == ("", "unparseable")
