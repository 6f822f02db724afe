"""CoV-RAG's criteria as numbers: ranks, high-quality rates, and scores of verifications and revisions.

He et al., "Retrieving, Rethinking and Revising", EMNLP Findings 2024, sections 4.2 and 4.3, tables 3, 4 and 6.
https://arxiv.org/abs/2410.05801

Bias is how far an answer departs from the examiner's own answer, which does not rely on the references; 0 is best.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from optimizers.metrics.answer import cover_substring, findable

CRITERIA = ("citation_accuracy", "correctness", "truthfulness", "bias", "conciseness")
LOWER_IS_BETTER = frozenset({"bias"})
Ties = Literal["min", "dense"]
_ALMOST = 1 - 1e-9

Scores = Mapping[str, float | None]
"""System -> its score in [0, 1] for one question and one criterion; None without a verdict of the judge."""


def ranks(scores: Scores, criterion: str, *, ties: Ties = "min") -> dict[str, int] | None:
    """Return the rank of each system on one question, 1 is best; None if a verdict is missing.

    Equal scores share the best of their ranks ("min"), as the sums of the paper's Table 3 show; "dense" skips no rank
    after them (the table is consistent with both). A missing verdict excludes the question for all systems, so that all
    are averaged over the same questions.
    """
    from scipy.stats import rankdata

    values = [value for value in scores.values() if value is not None]
    if len(values) < len(scores):
        return None
    order = values if criterion in LOWER_IS_BETTER else [-value for value in values]
    return dict(zip(scores, map(int, rankdata(order, method=ties)), strict=True))


def high_quality(score: float, criterion: str) -> bool:
    """Return whether a score counts as high quality (Table 4).

    Citation accuracy, correctness and truthfulness must be 1, bias below 0.3, conciseness above 0.5.
    """
    if criterion == "bias":
        return score < 0.3
    if criterion == "conciseness":
        return score > 0.5
    return score >= _ALMOST


def judgement_is_correct(judgement: str | None, response: str, golds: Sequence[str]) -> float | None:
    """Return 1.0 if a verification's judgement of the response is correct, else 0.0 (Table 6, Jdg); None without golds.

    The response is correct if a normalised gold is part of it. Only the judgement "true" calls it correct; None (an
    unparseable judgement) scores 0.
    """
    correct = cover_substring(response, golds)
    if correct is None:
        return None
    return float(judgement is not None and (judgement == "true") == (correct == 1.0))


def references_contain_gold(texts: Sequence[str], golds: Sequence[str]) -> float | None:
    """Return 1.0 if a reference contains a gold answer, else 0.0 (Table 6, Ref); None if no gold is `findable`."""
    usable = findable(golds)
    return cover_substring("\n".join(texts), usable) if usable else None


def revision_score(revised: bool, due: bool, quality: float | None) -> float | None:
    """Return the score in [0, 1] of the decision to revise a question and of the revision.

    Args:
        revised: Whether the question was revised.
        due: Whether it had to be.
        quality: Content score of the revised question; None if it is missing or unparseable.

    Returns:
        0 for a wrong decision, 1 for correctly not revising, else the content score.
    """
    if revised != due:
        return 0.0
    return quality if revised else 1.0
