"""CoV-RAG's verification of an answer, and the gate that decides by it whether to search again.

He et al., "Retrieving, Rethinking and Revising", Findings of EMNLP 2024, section 2.2 and appendix A.
https://arxiv.org/abs/2410.05801
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import dspy

TRIGGERS = ("gate", "combine", "reference_below", "correctness_below", "bias_above", "truthfulness_below")  # knobs
SCORES = ("reference_correctness", "correctness", "citation_accuracy", "truthfulness", "bias", "conciseness")


class Verification(NamedTuple):
    """The verification of an answer; with `chain=False` only the revised question is set.

    Args:
        reference_correctness: How much of the information that the question needs is in the references. This and the
            other scores: 0 to 1.
        correctness: Correctness of the response as an answer to the question.
        citation_accuracy: Accuracy of its citation marks.
        truthfulness: Absence of contradictions and logical errors in its text.
        bias: How far the response departs from the verifier's own answer, which does not rely on the references: 0 is
            no difference, 1 a big one. The judgement weighs it especially.
        conciseness: Directness of the response.
        judgement: "true", "false" or "unclear".
        revised_question: The question to search for instead; empty for no revision.
    """

    reference_correctness: float | None = None
    correctness: float | None = None
    citation_accuracy: float | None = None
    truthfulness: float | None = None
    bias: float | None = None
    conciseness: float | None = None
    judgement: str | None = None
    revised_question: str = ""


def needs_revision(verification: Verification, knobs: Mapping[str, Any]) -> bool:
    """Return whether to search again: if there is a revised question and, in threshold mode, a trigger.

    This is the paper's gate (section 2.2, footnote). It depends on its arguments alone. In the mode "revision", the
    paper's default, a revised question suffices, whatever the judgement.

    Departure: the footnote gives thresholds without directions or a combination. Here scores trigger a revision below
    the threshold (bias: above), a score equal to its threshold and the judgement "unclear" do not; `combine` says
    whether any trigger suffices or all are needed. Scores that are missing (without the chain, all) are ignored; if all
    are missing, the gate is that of the mode "revision".

    Args:
        verification: As the program records it.
        knobs: Values of at least `TRIGGERS`.
    """
    if not verification.revised_question:
        return False
    if knobs["gate"] == "revision":
        return True
    triggers = [
        _is_below(verification.reference_correctness, knobs["reference_below"]),
        _is_below(verification.correctness, knobs["correctness_below"]),
        None if verification.bias is None else verification.bias > knobs["bias_above"],
        _is_below(verification.truthfulness, knobs["truthfulness_below"]),
        None if verification.judgement is None else verification.judgement == "false",
    ]
    present = [trigger for trigger in triggers if trigger is not None]
    return not present or (all(present) if knobs["combine"] == "all" else any(present))


def _is_below(score: float | None, threshold: float) -> bool | None:
    """Return whether a score is below its threshold; None if the score is missing."""
    return None if score is None else score < threshold


def read_scores(reply: dspy.Prediction) -> tuple[dict[str, float], int]:
    """Return the scores in a verifier's reply, clamped to [0, 1], and how many were outside; none without the chain."""
    scores = {name: float(reply[name]) for name in SCORES if name in reply}
    clamped = {name: min(1.0, max(0.0, score)) for name, score in scores.items()}
    return clamped, sum(clamped[name] != scores[name] for name in scores)
