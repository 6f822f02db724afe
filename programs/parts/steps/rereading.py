"""Read passages; where the LM is not sure of its answer, read them once more in reverse order, and keep the surer one.

An LM reads the first and the last of several passages better than those between (Liu et al., "Lost in the Middle", TACL
2024, https://arxiv.org/abs/2307.03172), so that the same passages in another order are another chance. Which reply is
kept follows from the probabilities that the LM gave to the two answers; no further call judges them. None of the papers
whose programs take this step has it; it is a knob, `reread`, which no preset sets.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import dspy

from programs.parts.prediction import DONE, UNPARSEABLE, drop_from_trace, recall
from programs.parts.token_probabilities import text_probability, try_predict_scored
from signatures.types import Passage

SURE = 0.8
"""Probability of an answer from which on it is not read again; a second one is rarely more probable."""


class Read(NamedTuple):
    """What was read: the answer, empty if the reply is unparseable, why it stopped, and `details` of the prediction.

    Of an LM that gives log-probabilities, `details` has `confidence`, the probability of the answer, and
    `probabilities`, those of all answers that were read, in order.
    """

    answer: str
    stop_reason: str
    details: dict[str, Any]


def read(program: dspy.Module, question: str, passages: Sequence[Passage]) -> Read:
    """Return the answer that is read from passages; with none to read, that from memory.

    Args:
        program: Has the predictor `reading` of `ReadAnswer`, and the knob `reread`.
        question: The question.
        passages: In the order in which they are read first.
    """
    if not passages:
        recalled = recall(question)
        return Read(recalled.answer if recalled else "", DONE if recalled else UNPARSEABLE, {})
    step, probability = _scored(program.reading, question, passages)
    if step is None:
        return Read("", UNPARSEABLE, {})
    if not program.reread or len(passages) < 2 or probability is None or probability >= SURE:
        return Read(step.answer, DONE, _details(probability, [probability]))
    again, second = _scored(program.reading, question, passages[::-1])
    surer = second is not None and second > probability
    drop_from_trace(step if surer else again)  # overridden: no demonstration
    kept = again if surer and again is not None else step
    return Read(kept.answer, DONE, _details(second if surer else probability, [probability, second]))


def _scored(
    reading: dspy.Module, question: str, passages: Sequence[Passage]
) -> tuple[dspy.Prediction | None, float | None]:
    step, content = try_predict_scored(reading, question=question, passages=list(passages))
    return step, text_probability(step.answer, content) if step else None


def _details(confidence: float | None, probabilities: list[float | None]) -> dict[str, Any]:
    return {} if confidence is None else {"confidence": confidence, "probabilities": probabilities}
