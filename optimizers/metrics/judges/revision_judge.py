"""A judge of revised questions in two steps: whether a revision was due, and its quality.

He et al., "Retrieving, Rethinking and Revising", Findings of EMNLP 2024, appendix G (evaluation of revised questions).
https://arxiv.org/abs/2410.05801

Departure: the paper's prompt ranks the revisions of several models at once and gives a reason. Here each is scored on
its own, because the first answers and references of two runs differ, and the time of a revision is asked apart from
its content.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import dspy

from optimizers.metrics.judges.answer_judge import revision_score
from programs.parts.prediction import try_predict
from signatures.dimensions import JudgeTiming, ScoreRevision
from signatures.types import Passage


@dataclass(frozen=True)
class RevisionVerdict:
    """The judge's score of one question's revision.

    Args:
        score: In [0, 1]; None if a reply was unparseable.
        unparsed: Unparseable replies.
        clamped: Scores that were outside [0, 1].
    """

    score: float | None
    unparsed: int
    clamped: int = 0


class RevisionJudge(dspy.Module):
    """Scores the first revised question of a run's row; at most two LM calls a question."""

    def __init__(self) -> None:
        super().__init__()
        self.timing = dspy.Predict(JudgeTiming)
        self.scoring = dspy.Predict(ScoreRevision)

    @staticmethod
    def verifies(row: Mapping[str, Any]) -> bool:
        """Return whether a row records a parsed verification and its question has a gold answer."""
        return bool((row.get("details") or {}).get("verifications")) and bool(row["answers"]) and bool(row["hops"])

    def forward(self, row: Mapping[str, Any], corpus: Mapping[str, Passage]) -> RevisionVerdict:
        """Return the score of the first revision; its content is judged only if the revision was due.

        Args:
            row: A row of a run for which `verifies` is true.
            corpus: Passages by id; references that are not in it are not shown.
        """
        first = row["hops"][0]
        revised = row["details"]["verifications"][0]["revised_question"]
        shown = {"question": row["question"], "right_answers": row["answers"]}
        references = [corpus[id] for id in first["passage_ids"] if id in corpus]
        timing = try_predict(self.timing, passages=references, response=first["answer"], **shown)
        if timing is None:
            return RevisionVerdict(None, 1)
        if not (revised and timing.due):
            return RevisionVerdict(revision_score(bool(revised), timing.due, None), 0)
        content = try_predict(self.scoring, passages=references, revised_question=revised, **shown)
        if content is None:
            return RevisionVerdict(None, 1)
        quality = min(max(content.quality, 0.0), 1.0)
        return RevisionVerdict(revision_score(True, True, quality), 0, clamped=int(quality != content.quality))

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question."""
        return 2
