"""A judge that scores two to four answers to one question in one call, blind and in shuffled order.

He et al., "Retrieving, Rethinking and Revising", EMNLP Findings 2024, section 4.2 and appendix G: citations are judged
against the references, the other criteria against the gold label. https://arxiv.org/abs/2410.05801

Departure: citations are judged only if all answers rest on the same references, because otherwise equal numbers mean
different passages (the paper leaves these cells empty, too). Scores outside [0, 1] are clamped and counted.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import dspy

from optimizers.metrics.judges.dimensions import CRITERIA
from programs.parts.predict import try_predict
from signatures.common.errors import UserError
from signatures.dimensions import CompareAnswers, CompareCitations
from signatures.types import Passage

MIN_ANSWERS, MAX_ANSWERS = 2, 4


@dataclass(frozen=True)
class Comparison:
    """One question with the answers of several systems.

    Args:
        id: Id of the question; seeds the order in which the answers are shown.
        question: The question.
        golds: Accepted answers; may be empty.
        responses: System -> its answer, with `[n]` marks if it cites.
        references: System -> the passages its marks refer to, in their order.
    """

    id: str
    question: str
    golds: Sequence[str]
    responses: Mapping[str, str]
    references: Mapping[str, Sequence[Passage]] = field(default_factory=dict)

    def shared_references(self) -> list[Passage] | None:
        """Return the references of all answers; None if they differ or are empty."""
        by_system = [list(self.references.get(system, ())) for system in self.responses]
        ids = [[passage.id for passage in passages] for passages in by_system]
        return by_system[0] if by_system[0] and all(other == ids[0] for other in ids) else None


@dataclass(frozen=True)
class Verdict:
    """The judge's scores of one question.

    Args:
        scores: Criterion -> system -> score in [0, 1]; None without a verdict.
        unparsed: Unparseable replies, and lists of scores whose length is not the number of answers.
        clamped: Scores that were outside [0, 1].
    """

    scores: dict[str, dict[str, float | None]]
    unparsed: int
    clamped: int


class ListwiseJudge(dspy.Module):
    """Scores answers relative to each other; at most two LM calls a question.

    Args:
        seed: Seed of the order in which answers are shown.
    """

    def __init__(self, *, seed: int = 0):
        super().__init__()
        self.seed = seed
        self.citing = dspy.Predict(CompareCitations)
        self.comparing = dspy.Predict(CompareAnswers)

    def forward(self, comparison: Comparison) -> Verdict:
        """Return the scores of all answers on every criterion that can be judged.

        Raises:
            UserError: There are fewer than two or more than four answers.
        """
        responses = comparison.responses
        if not MIN_ANSWERS <= len(responses) <= MAX_ANSWERS:
            raise UserError(f"{len(responses)} answers to compare: the judge takes {MIN_ANSWERS} to {MAX_ANSWERS}.")
        order = sorted(responses)
        random.Random(f"{self.seed}:{comparison.id}").shuffle(order)
        scores: dict[str, dict[str, float | None]] = {name: dict.fromkeys(responses) for name in CRITERIA}
        unparsed = clamped = 0
        for criterion, values in self._scores(comparison, order):
            if values is None or len(values) != len(order):
                unparsed += 1
                continue
            clamped += sum(not 0 <= value <= 1 for value in values)
            in_range = [min(max(float(value), 0.0), 1.0) for value in values]
            scores[criterion] = {system: in_range[order.index(system)] for system in responses}
        return Verdict(scores, unparsed, clamped)

    def _scores(self, comparison: Comparison, order: Sequence[str]) -> list[tuple[str, list[float] | None]]:
        """Return (criterion, scores in this order of systems); one pair with None for an unparseable reply."""
        lettered = [
            f"{chr(ord('A') + number)}: {comparison.responses[system] or '(no answer)'}"
            for number, system in enumerate(order)
        ]
        shown = {"question": comparison.question, "answers": lettered}
        replies: list[tuple[Sequence[str], dspy.Prediction | None]] = []
        references = comparison.shared_references()
        if references:
            replies.append((CRITERIA[:1], try_predict(self.citing, passages=references, **shown)))
        if comparison.golds:
            replies.append((CRITERIA[1:], try_predict(self.comparing, right_answers=list(comparison.golds), **shown)))
        pairs: list[tuple[str, list[float] | None]] = []
        for criteria, reply in replies:
            if reply is None:
                pairs.append((criteria[0], None))
            else:
                pairs += [(criterion, list(getattr(reply, criterion))) for criterion in criteria]
        return pairs

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question."""
        return 2
