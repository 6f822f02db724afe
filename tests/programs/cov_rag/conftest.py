"""A library, and an LM that verifies, for the tests of CoV-RAG."""

from collections.abc import Callable

import pytest

from signatures.types import Passage
from tests.programs.fakes import Fake

QUESTION = "Who is the harbour master?"


class Library(Fake):
    """Finds the filler for what was asked at first, and the harbour master for any other query."""

    def __init__(self, passages: list[Passage]):
        super().__init__()
        self.passages = passages

    def find(self, query: str, k: int) -> list[Passage]:
        return self.passages[:4] if query == QUESTION else self.passages[3:]


def tell(*verifications, responses=("Bert Oyle is [1].", "Ansa Merrow is [2].", "Third [1].", "Fourth [1].")):
    """Reply with the given verifications and responses in order; the short answer is that of the response read."""
    checks, said = iter(verifications), iter(responses)

    def reply(system, user):
        if "one to four full sentences" in system:
            response = next(said)
            return response if response == "??" else {"response": response}
        if "Examine the response" in system or "does not answer the question rightly" in system:
            return next(checks)
        if "Rewrite the question" in system:
            return {"revised_question": "Master of the harbour of Quillon?"}
        return {"answer": "Ansa Merrow" if "Ansa Merrow" in user.split("[[ ## question")[0] else "Bert Oyle"}

    return reply


def letters(engine) -> str:
    """Return which calls were made: Answer, Verify, Improve the question, reWrite, Read."""
    marks = {"one to four": "A", "Examine": "V", "does not answer": "I", "Rewrite": "W", "as short as": "R"}
    return "".join(next(mark for text, mark in marks.items() if text in str(item.system)) for item in engine.requests)


@pytest.fixture
def library(passages) -> Library:
    return Library(passages)


@pytest.fixture
def story() -> Callable:
    """Return a function that makes a reply of a scripted LM from verifications and responses."""
    return tell


@pytest.fixture
def kinds() -> Callable:
    """Return a function that names the calls an engine got, a letter each."""
    return letters
