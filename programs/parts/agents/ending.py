"""How an agent answers when its turns have ended: in its own words, by an extracting call, or by the shared reader."""

from collections.abc import Sequence
from typing import Any

import dspy

from programs.parts.longform import gives_answer
from programs.parts.predict import drop_from_trace, try_predict
from signatures.agents.transcript import ExtractAnswer
from signatures.reading import ReadAnswer
from signatures.text_words import same_words
from signatures.types import Passage

OWN, EXTRACT, PASSAGES = "own", "extract", "passages"


def ending_predictors(reader: str) -> dict[str, dspy.Module]:
    """Return the predictors that a reader needs, by the name of their attribute: at most one."""
    if reader == EXTRACT:
        return {"extracting": dspy.ChainOfThought(ExtractAnswer)}
    return {"reading": dspy.Predict(ReadAnswer)} if reader == PASSAGES else {}


def final_answer(
    program: Any, question: str, own: str, lines: Sequence[str], read: Sequence[Passage], *, finish: Any
) -> str:
    """Return the answer of an agent by the reader that is its knob.

    The agent's own answer is the fallback: of an unparseable reply, of one without an answer, and of the reader of
    passages where nothing was found.

    Args:
        program: Has the knob `reader` and the predictors of it.
        question: The question.
        own: The answer that the agent finished with; empty if it did not.
        lines: Its transcript.
        read: The passages that it found, in reading order.
        finish: The reply that finished; None if none did.
    """
    reply = None
    if program.reader == EXTRACT:
        reply = try_predict(program.extracting, question=question, transcript=list(lines))
    elif program.reader == PASSAGES and read:
        reply = try_predict(program.reading, question=question, passages=list(read))
    answer = reply.answer.strip() if reply and gives_answer(reply.answer) else own.strip()
    if finish is not None and same_words(answer) != same_words(own):
        drop_from_trace(finish)  # a reply that finishes with another answer must not become a demo
    return answer
