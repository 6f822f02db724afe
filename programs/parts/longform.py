"""Long-form responses: the passages that their marks cite, and the short answer that metrics need."""

from collections.abc import Sequence

import dspy

from programs.parts.prediction import drop_from_trace, try_predict
from signatures.citation_marks import citation_numbers, renumber_citations, strip_citations
from signatures.refusals import refuses
from signatures.types import Passage
from signatures.voting import is_answer


def cited_passages(response: str, passages: Sequence[Passage]) -> list[str]:
    """Return the ids of the passages that the `[n]` marks of a response cite, in order of first mark.

    A mark outside the range of the passages is skipped here; it stays in the response, where the groundedness metrics
    count it.
    """
    return [passages[number - 1].id for number in citation_numbers(response) if 1 <= number <= len(passages)]


def gives_answer(response: str) -> bool:
    """Return whether a response has words besides its marks, is not "unknown", and does not decline to answer."""
    return is_answer(strip_citations(response)) and not refuses(response)


def answer_in(reply: dspy.Prediction | None) -> str:
    """Return the short answer of a reply, stripped; empty if the reply was unparseable (None) or gives no answer."""
    return reply.answer.strip() if reply is not None and gives_answer(reply.answer) else ""


def read_answer(reading: dspy.Module, question: str, passages: Sequence[Passage]) -> str:
    """Return the short answer that a reader gives from passages; empty if it gives none, and its reply is no demo."""
    reply = try_predict(reading, passages=list(passages), question=question)
    answer = answer_in(reply)
    if not answer:
        drop_from_trace(reply)
    return answer


def read_response(answering: dspy.Module, question: str, passages: Sequence[Passage]) -> str | None:
    """Return the response that is written from passages, None if unparseable; one that declines is no demo."""
    reply = try_predict(answering, question=question, passages=list(passages))
    if reply is None:
        return None
    response: str = reply.response.strip()
    if not gives_answer(response):
        drop_from_trace(reply)
    return response


def renumbered(response: str, shown: Sequence[Passage], passages: Sequence[Passage]) -> str:
    """Return a response with marks that are positions in `passages`; a mark out of range stays out of range.

    Args:
        response: The text, whose marks are positions in `shown`.
        shown: The passages that the LM saw when it wrote the response.
        passages: All passages of the prediction, which contain those shown.
    """
    positions = {passage.id: position for position, passage in enumerate(passages, start=1)}

    def position_of(mark: int) -> int:
        if 1 <= mark <= len(shown):
            return positions[shown[mark - 1].id]
        return mark + len(passages) if 1 <= mark <= len(passages) else mark

    return renumber_citations(response, position_of)


def short_answer(reading: dspy.Module | None, question: str, response: str) -> str:
    """Return the short answer in a response, extracted by the shared reader with the response as its only passage.

    Without a reader, or if its reply is unparseable, that is the response without its marks. It is empty, and costs no
    call, for a response that gives no answer.

    Args:
        reading: A predictor of `ReadAnswer`; None makes no call.
        question: The question.
        response: The long form, with or without marks.
    """
    if not gives_answer(response):
        return ""
    text = strip_citations(response)
    step = try_predict(reading, question=question, passages=[Passage(id="response", text=text)]) if reading else None
    return step.answer.strip() if step and step.answer.strip() else text
