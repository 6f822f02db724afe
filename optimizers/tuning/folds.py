"""Cross-validation of the choice: what the best setting scores on questions that did not choose it.

The mean of the best of many trials is too high, because it is the best also by luck. Here the questions are dealt into
folds; for each fold, the best trial on all other questions is chosen, and only its scores on the fold count. CoV-RAG
(He et al., Findings of EMNLP 2024, https://arxiv.org/abs/2410.05801) chooses its thresholds by cross-validation, too.

What is validated is the choice among the trials. Samplers that learn (tpe, nsga2) have seen all scores when they
propose trials, which still flatters a little; random and grid have not.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from optimizers.tuning.objective import Goal
from optimizers.tuning.records import Trial, best_of


@dataclass(frozen=True)
class HeldOut:
    """The scores of chosen settings on questions that did not choose them.

    Args:
        folds: Number of folds.
        chosen: Number of the trial that each fold's other questions choose.
        scores: Per question, in the study's order; None where the metric is undefined.
    """

    folds: int
    chosen: list[int]
    scores: list[float | None]

    def as_dict(self) -> dict[str, Any]:
        """Return the estimate as JSON values."""
        return {"folds": self.folds, "chosen": self.chosen, "scores": self.scores}


def held_out(trials: Sequence[Trial], goal: Goal, *, folds: int, questions: Sequence[Hashable]) -> HeldOut | None:
    """Return the held-out scores of the choice; None if a fold has no trial to choose, or there are too few questions.

    The study's order of questions is random already, so that dealing them out in turn makes random folds.

    Args:
        trials: All trials; the complete ones compete.
        goal: Limits, which hold on the questions that choose.
        folds: At least 2.
        questions: What each one asks; equal ones are in one fold.
    """
    if folds < 2 or len(questions) < 2 * folds:
        return None
    first = {asked: place for place, asked in reversed([*enumerate(questions)])}
    fold_of = [first[asked] % folds for asked in questions]
    scores: list[float | None] = [None] * len(questions)
    chosen = []
    for fold in range(folds):
        inside = [place for place, own in enumerate(fold_of) if own == fold]
        best = best_of(trials, goal, [place for place, own in enumerate(fold_of) if own != fold])
        if best is None:
            return None
        chosen.append(best.number)
        for place in inside:
            scores[place] = best.scores[place]
    return HeldOut(folds, chosen, scores)
