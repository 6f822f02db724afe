"""A judge that scores two to four answers to one question in one call, blind and in shuffled order.

He et al., "Retrieving, Rethinking and Revising", EMNLP Findings 2024, section 4.2 and appendix G: citations are judged
against the references, the other criteria against the gold label. https://arxiv.org/abs/2410.05801

Departure: answers that rest on different references are not judged for their citations, for their numbers mean
different passages; the paper leaves the cell empty, too. Scores outside [0, 1] are moved to the nearer end and counted.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import dspy

from optimizers.metrics.dimensions import CRITERIA
from programs.parts.predict import try_predict
from signatures.common.errors import UserError
from signatures.dimensions import CompareAnswers, CompareCitations
from signatures.types import Passage

FEWEST, MOST = 2, 4


@dataclass(frozen=True)
class Bout:
    """One question with the answers of several systems.

    Args:
        id: Of the question; seeds the order in which the answers are shown.
        question: What was asked.
        golds: Accepted answers; empty where there are none.
        responses: System -> its answer, with `[n]` marks where it writes them.
        references: System -> the passages its marks count, in their order.
    """

    id: str
    question: str
    golds: Sequence[str]
    responses: Mapping[str, str]
    references: Mapping[str, Sequence[Passage]] = field(default_factory=dict)

    def shared_references(self) -> list[Passage] | None:
        """Return the references of all answers; None where they differ or there are none."""
        told = [list(self.references.get(system, ())) for system in self.responses]
        ids = [[passage.id for passage in passages] for passages in told]
        return told[0] if told[0] and all(other == ids[0] for other in ids) else None


@dataclass(frozen=True)
class Verdict:
    """What the judge said of one question.

    Args:
        scores: Criterion -> system -> score in [0, 1]; None where there is no verdict.
        unread: Replies that could not be read, or that held another number of scores than answers.
        moved: Scores that lay outside [0, 1].
    """

    scores: dict[str, dict[str, float | None]]
    unread: int
    moved: int


class ListwiseJudge(dspy.Module):
    """Scores answers side by side; at most two LM calls a question.

    Args:
        seed: Of the order in which answers are shown.
    """

    def __init__(self, *, seed: int = 0):
        super().__init__()
        self.seed = seed
        self.citing = dspy.Predict(CompareCitations)
        self.comparing = dspy.Predict(CompareAnswers)

    def forward(self, bout: Bout) -> Verdict:
        """Return the scores of all answers on every criterion that can be judged.

        Raises:
            UserError: There are fewer than two or more than four answers.
        """
        if not FEWEST <= len(bout.responses) <= MOST:
            raise UserError(f"{len(bout.responses)} answers to compare: give the judge {FEWEST} to {MOST} runs.")
        order = sorted(bout.responses)
        random.Random(f"{self.seed}:{bout.id}").shuffle(order)
        shown = {"question": bout.question, "answers": _lettered([bout.responses[system] for system in order])}
        replies: list[tuple[Sequence[str], dspy.Prediction | None]] = []
        references = bout.shared_references()
        if references:
            replies.append((CRITERIA[:1], try_predict(self.citing, passages=references, **shown)))
        if bout.golds:
            replies.append((CRITERIA[1:], try_predict(self.comparing, right_answers=list(bout.golds), **shown)))
        scores: dict[str, dict[str, float | None]] = {name: dict.fromkeys(bout.responses) for name in CRITERIA}
        unread = moved = 0
        for criteria, reply in replies:
            unread += reply is None
            for criterion in criteria if reply is not None else ():
                given = list(getattr(reply, criterion))
                if len(given) != len(order):
                    unread += 1
                    continue
                moved += sum(not 0 <= value <= 1 for value in given)
                clamped = [min(max(float(value), 0.0), 1.0) for value in given]
                scores[criterion] = {system: clamped[order.index(system)] for system in bout.responses}
        return Verdict(scores, unread, moved)

    def max_calls(self) -> int:
        """Return the most LM calls one question can take."""
        return 2


def _lettered(answers: Sequence[str]) -> list[str]:
    return [f"{chr(ord('A') + number)}: {answer or '(no answer)'}" for number, answer in enumerate(answers)]
