"""LM calls per second on this machine, measured on a few real prompts to estimate the time of a long run."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from corpora.questions import Question
    from programs.lms.connect import Connection
    from signatures.types import Retriever


def measure_calls_per_second(
    connection: "Connection", retrieve: "Retriever", questions: "Sequence[Question]", *, threads: int = 8
) -> float:
    """Return LM calls per second with `threads` concurrent calls, measured with `rag` on up to 2 * `threads` questions.

    The reply cache is off: cached replies would make the LM look too fast, and replies cached here would make the
    following run look too cheap.
    """
    import dspy

    from programs.single_step.rag import RAG

    program = RAG(retrieve, k=4)
    texts = [question.question for question in questions[: 2 * threads]]

    def ask(question: str) -> None:
        program(question=question)

    with connection.use(), dspy.context(lm=connection.lm.copy(cache=False)), ThreadPoolExecutor(threads) as pool:
        ask(texts[0])  # loads the LM and the embedder
        started = time.monotonic()
        for future in [pool.submit(copy_context().run, ask, question) for question in texts]:
            future.result()
    return len(texts) / max(time.monotonic() - started, 1e-6)
