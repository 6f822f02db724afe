"""Documents that an LM writes from memory, and the answer read from them and from passages."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import dspy

from programs.parts.longform import gives_answer
from programs.parts.prediction import drop_from_trace, read_or_recall, try_predict
from programs.parts.stop_reasons import UNPARSEABLE
from programs.parts.threads import fanout
from signatures.types import Passage

READ, RECALLED = "read", "recalled"


class Reading(NamedTuple):
    """A short answer and where it comes from.

    Args:
        answer: Empty if the reply was unparseable.
        verdict: "read", "recalled" (there was nothing to read) or "unparseable".
    """

    answer: str
    verdict: str


def write_documents(
    writing: dspy.Predict,
    question: str,
    *,
    size: int = 1,
    temperature: float | None = None,
    shown: Sequence[list[Any]] = (),
) -> list[Passage]:
    """Return the documents that an LM writes for a question, in order, with line ends as spaces.

    Unparseable replies, empty ones and refusals give no document. A document is a passage so that prompts show it
    as one; it is in no corpus and must not be cited.

    Args:
        writing: A predictor of `WriteDocument`.
        question: The question.
        size: Documents to write.
        temperature: Of the samples; None writes one document at the LM's temperature.
        shown: Demonstrations for each document, one list a document, instead of the predictor's own; then nothing is
            sampled.
    """
    calls: list[dict[str, Any]] = [{"demos": demos} for demos in shown] or [{}]
    if temperature is not None and not shown:
        calls = [{"config": {"temperature": temperature, "rollout_id": number + 1}} for number in range(size)]
    replies = fanout([partial(try_predict, writing, **call, question=question) for call in calls])
    usable = [reply for reply in replies if reply and gives_answer(reply.document)]
    kept = set(map(id, usable))
    drop_from_trace(*(reply for reply in replies if id(reply) not in kept))
    texts = [" ".join(reply.document.split()) for reply in usable]
    return [Passage(id=f"document-{number}", text=text) for number, text in enumerate(texts, start=1)]


def read_all(reading: dspy.Module, question: str, passages: Sequence[Passage]) -> Reading:
    """Return the answer read from passages; with none to read, that from memory, in one call either way."""
    step = read_or_recall(reading, question, passages)
    if step is None:
        return Reading("", UNPARSEABLE)
    return Reading(step.answer.strip(), READ if passages else RECALLED)
