"""How an agent answers when its turns have ended: in its own words, by an extracting call, or by the shared reader."""

from collections.abc import Mapping, Sequence
from typing import Any

import dspy

from programs.parts.agents.transcript import Turn, transcript_lines
from programs.parts.longform import answer_in
from programs.parts.passages import deduplicate, passages_stating
from programs.parts.predict import drop_from_trace, try_predict
from programs.parts.prediction import make_prediction
from programs.parts.stop_reasons import FINISHED
from signatures.agents.transcript import ExtractAnswer
from signatures.reading import ReadAnswer
from signatures.text_words import same_words
from signatures.types import Hop, Passage

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
    answer = answer_in(reply) or own.strip()
    if finish is not None and same_words(answer) != same_words(own):
        drop_from_trace(finish)  # a reply that finishes with another answer must not become a demo
    return answer


def ended(
    program: Any,
    question: str,
    turns: Sequence[Turn],
    hops: Sequence[Hop],
    found: Sequence[Passage],
    *,
    own: str,
    stop_reason: str,
    reply: dspy.Prediction | None,
    details: Mapping[str, Any],
) -> dspy.Prediction:
    """Return the prediction of an agent whose loop has ended, answered by its reader.

    Args:
        program: Has the knobs `reader` and `transcript_words`, and the predictors of its reader.
        question: The question.
        turns: All turns.
        hops: All hops, settled.
        found: The passages that it found, in reading order.
        own: The answer that the agent finished with; empty if it did not.
        stop_reason: "finished" if the last reply finished.
        reply: The last reply.
        details: Of the prediction.
    """
    read = deduplicate(found)
    lines = transcript_lines(turns, program.transcript_words)
    answer = final_answer(program, question, own, lines, read, finish=reply if stop_reason == FINISHED else None)
    return make_prediction(
        answer,
        stop_reason=stop_reason,
        hops=hops,
        passages=read,
        citations=passages_stating(answer, read),
        details=details,
    )
