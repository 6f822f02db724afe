"""How fast an LM answers here and now: a few real prompts before a long run, for its estimate."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from corpora.questions import Question
    from programs.lms.connect import Connection
    from signatures.types import Retriever


def calls_per_second(
    connection: "Connection", retrieve: "Retriever", questions: "Sequence[Question]", *, threads: int = 8
) -> float:
    """Return LM calls per second at `threads` wide, measured on the reading of up to 2 * `threads` questions.

    The cache is left out on both sides: its replies would be too fast, and replies kept here would make the run that
    follows look too cheap.
    """
    import dspy

    from programs.rag import RAG

    program = RAG(retrieve, k=4)
    asked = [question.question for question in questions[: 2 * threads]]

    def ask(question: str) -> None:
        program(question=question)

    with connection.use(), dspy.context(lm=connection.lm.copy(cache=False)), ThreadPoolExecutor(threads) as pool:
        ask(asked[0])  # loads the LM and the embedder
        started = time.monotonic()
        for done in [pool.submit(copy_context().run, ask, question) for question in asked]:
            done.result()
    return len(asked) / max(time.monotonic() - started, 1e-6)
