"""The validation scores of two artifacts, compared question by question."""

from typing import TYPE_CHECKING

from experiments.analysis.statistics import Paired, paired

if TYPE_CHECKING:
    from programs.artifact import Artifact


def paired_scores(first: "Artifact", second: "Artifact") -> Paired | None:
    """Return the paired difference, second minus first, on the questions for which both hold a score.

    Returns:
        None if their metrics differ, by name or definition, or if they share no question.
    """
    if any(first.metric.get(name) != second.metric.get(name) for name in ("name", "definition")):
        return None
    before, after = (_scores(record) for record in (first, second))
    shared = [question for question in before if question in after]
    return (
        paired([before[question] for question in shared], [after[question] for question in shared]) if shared else None
    )


def _scores(record: "Artifact") -> dict[str, float | None]:
    """Return the scores by question; an artifact may come from a stranger, so other values are left out."""
    scores = record.metric.get("scores")
    return {
        question: None if value is None else float(value)
        for question, value in (scores.items() if isinstance(scores, dict) else ())
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool))
    }
