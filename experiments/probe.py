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

    Replies that come from the cache are not counted; when all do, the rate is that of the cache.
    """
    from programs.parts.meter import metered
    from programs.rag import RAG

    program = RAG(retrieve, k=4)
    asked = [question.question for question in questions[: 2 * threads]]

    def ask(question: str) -> float:
        with metered() as meter:
            program(question=question)
        return meter.calls - meter.cached_calls

    with connection.use(), ThreadPoolExecutor(threads) as pool:
        program(question=asked[0])  # loads the LM and the embedder
        started = time.monotonic()
        counts = [pool.submit(copy_context().run, ask, question) for question in asked]
        calls = sum(count.result() for count in counts)
    return max(calls, 1) / max(time.monotonic() - started, 1e-6)
