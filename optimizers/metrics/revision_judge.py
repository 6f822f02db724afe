"""A judge of revised questions in two steps: was it time to revise, and is the revision good?

He et al., "Retrieving, Rethinking and Revising", Findings of EMNLP 2024, appendix G (evaluation of revised questions).
https://arxiv.org/abs/2410.05801
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import dspy

from optimizers.metrics.dimensions import revision_score
from programs.parts.predict import try_predict
from signatures.dimensions import JudgeTiming, ScoreRevision
from signatures.types import Passage


@dataclass(frozen=True)
class Revision:
    """What the judge says of one question's revision.

    Args:
        score: In [0, 1]; None where a reply could not be read.
        unread: Replies that could not be read.
        moved: Scores that lay outside [0, 1] and were moved to the nearer end.
    """

    score: float | None
    unread: int
    moved: int = 0


class RevisionJudge(dspy.Module):
    """Scores the first revised question of a run's row; at most two LM calls a question."""

    def __init__(self) -> None:
        super().__init__()
        self.timing = dspy.Predict(JudgeTiming)
        self.scoring = dspy.Predict(ScoreRevision)

    @staticmethod
    def verifies(row: Mapping[str, Any]) -> bool:
        """Return whether a row records a verification that could be read, and its question has a gold answer."""
        return bool((row.get("details") or {}).get("verifications")) and bool(row["answers"]) and bool(row["hops"])

    def forward(self, row: Mapping[str, Any], corpus: Mapping[str, Passage]) -> Revision:
        """Return the score of the first revision; its content is judged only where its timing was right.

        Args:
            row: A row of a run for which `verifies` holds.
            corpus: Passages by id; references that are not in it are not shown.
        """
        first = row["hops"][0]
        revised = row["details"]["verifications"][0]["revised_question"]
        asked = {"question": row["question"], "right_answers": row["answers"]}
        references = [corpus[id] for id in first["passage_ids"] if id in corpus]
        timing = try_predict(self.timing, passages=references, response=first["answer"], **asked)
        if timing is None:
            return Revision(None, 1)
        if not (revised and timing.due):
            return Revision(revision_score(bool(revised), timing.due, None), 0)
        content = try_predict(self.scoring, revised_question=revised, **asked)
        if content is None:
            return Revision(None, 1)
        quality = min(max(content.quality, 0.0), 1.0)
        return Revision(revision_score(True, True, quality), 0, moved=int(quality != content.quality))

    def max_calls(self) -> int:
        """Return the most LM calls one question can take."""
        return 2
