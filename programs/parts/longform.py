"""Long-form responses: which passages their marks point to, and the short answer that metrics need."""

from collections.abc import Sequence

import dspy

from programs.parts.predict import attempt
from signatures.text import citation_numbers, refuses, strip_citations
from signatures.types import Passage


def cited_passages(response: str, passages: Sequence[Passage]) -> list[str]:
    """Return the ids of the passages that the `[n]` marks of a response point to, in order of first mark.

    A mark that points to no passage is left out here and stays in the response, where the groundedness metrics see it.
    """
    return [passages[number - 1].id for number in citation_numbers(response) if 1 <= number <= len(passages)]


def says_something(response: str) -> bool:
    """Return whether a response has words besides its marks and does not decline."""
    return bool(strip_citations(response)) and not refuses(response)


def short_answer(reading: dspy.Module | None, question: str, response: str) -> str:
    """Return the short answer that a response holds, by the shared reader with the response as its only passage.

    The reader sees nothing else, so the answer is the response's own. Without a reader, or where its reply cannot be
    read, the answer is the response without its marks. A response that says nothing has none, and costs no call.

    Args:
        reading: A predictor of `ReadAnswer`; None leaves it unread.
        question: What was asked.
        response: The long form, with or without marks.
    """
    if not says_something(response):
        return ""
    told = strip_citations(response)
    step = attempt(reading, question=question, passages=[Passage(id="response", text=told)]) if reading else None
    return step.answer.strip() if step and step.answer.strip() else told
