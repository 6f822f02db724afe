"""A judge that scores and ranks two to four answers to one question in one call, blind and in shuffled order.

He et al., "Retrieving, Rethinking and Revising", EMNLP Findings 2024, section 4.2 and appendix G: citations are judged
against the references, the other criteria against the gold label; the reply is a ranking with scores, and its reason.
https://arxiv.org/abs/2410.05801

Departure: where answers rest on different references, the judge is shown all of them once, and marks are renumbered.
Only the citations of answers without references are not judged, as the paper leaves these cells of its table empty.
Scores outside [0, 1] are clamped and counted.

Departure: the paper does not say what holds if a ranking contradicts its own scores. Here ranks follow from the scores
(`answer_judge.ranks`: equal scores share the best rank, which an order cannot express), and such rankings are counted.
"""

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import dspy

from optimizers.metrics.judges.answer_judge import CRITERIA, LOWER_IS_BETTER
from programs.parts.longform import renumbered
from programs.parts.passages import deduplicate
from programs.parts.prediction import try_predict
from signatures.common.errors import UserError
from signatures.dimensions import CompareAnswers, CompareCitations
from signatures.types import Passage

MIN_ANSWERS, MAX_ANSWERS = 2, 4

# "answer2: 0.7", in any punctuation; no other answer is named between the name and its score.
_PLACE = re.compile(r"\banswer[\s_]*(\d+)\b(?:(?!answer)\D)*?(-?(?:\d+(?:\.\d+)?|\.\d+))", re.IGNORECASE)
_NAME = re.compile(r"\banswer[\s_]?([1-9])\b", re.IGNORECASE)


@dataclass(frozen=True)
class ComparedAnswers:
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

    def cited(self, order: Sequence[str]) -> tuple[list[Passage], dict[str, str]]:
        """Return the references of all answers, each passage once, and the answers that have any with marks of these.

        Args:
            order: The systems, in the order in which their references are listed.
        """
        passages = deduplicate(each for system in order for each in self.references.get(system, ()))
        return passages, {
            system: renumbered(self.responses[system], own, passages)
            for system in order
            if (own := self.references.get(system))
        }


@dataclass(frozen=True)
class ListwiseVerdict:
    """The judge's scores and rankings of one question.

    Args:
        scores: Criterion -> system -> score in [0, 1]; None without a verdict.
        rankings: Criterion -> systems, best first, in the judge's order; None without a verdict.
        reasons: Criteria that were judged in one reply, joined by ", " -> the judge's reason, with systems by name.
        shown: The systems in the order of `answer1`, `answer2`, ...
        misordered: Rankings that contradict their own scores; the ranks follow from the scores.
        unparsed: Unparseable replies, and rankings that do not name each answer once.
        clamped: Scores that were outside [0, 1].
    """

    scores: dict[str, dict[str, float | None]]
    rankings: dict[str, list[str] | None]
    reasons: dict[str, str]
    shown: list[str]
    misordered: int
    unparsed: int
    clamped: int


class Place(NamedTuple):
    """A place in a ranking: the position of the answer in the prompt, from 0, and its score as written."""

    position: int
    score: float


class ListwiseJudge(dspy.Module):
    """Scores and ranks answers relative to each other; at most two LM calls a question.

    Args:
        seed: Seed of the order in which answers are shown.
    """

    def __init__(self, *, seed: int = 0):
        super().__init__()
        self.seed = seed
        self.citing = dspy.Predict(CompareCitations)
        self.comparing = dspy.Predict(CompareAnswers)

    def forward(self, comparison: ComparedAnswers) -> ListwiseVerdict:
        """Return the scores and rankings of all answers on every criterion that can be judged.

        Raises:
            UserError: There are fewer than two or more than four answers.
        """
        responses = comparison.responses
        if not MIN_ANSWERS <= len(responses) <= MAX_ANSWERS:
            raise UserError(f"{len(responses)} answers to compare: the judge takes {MIN_ANSWERS} to {MAX_ANSWERS}.")
        order = sorted(responses)
        random.Random(f"{self.seed}:{comparison.id}").shuffle(order)
        scores: dict[str, dict[str, float | None]] = {name: dict.fromkeys(responses) for name in CRITERIA}
        rankings: dict[str, list[str] | None] = dict.fromkeys(CRITERIA)
        reasons: dict[str, str] = {}
        misordered = unparsed = clamped = 0
        for criteria, judged, reply in self._replies(comparison, order):
            if reply is None:
                unparsed += 1
                continue
            if reason := _with_names(reply.reason, judged):
                reasons[", ".join(criteria)] = reason
            for criterion in criteria:
                places = _places(reply[criterion], len(judged))
                if places is None:
                    unparsed += 1
                    continue
                clamped += sum(not 0 <= place.score <= 1 for place in places)
                misordered += not _is_ordered(places, criterion)
                rankings[criterion] = [judged[place.position] for place in places]
                of = {judged[place.position]: min(max(place.score, 0.0), 1.0) for place in places}
                scores[criterion] |= {system: of[system] for system in responses if system in of}
        return ListwiseVerdict(scores, rankings, reasons, order, misordered, unparsed, clamped)

    def _replies(
        self, comparison: ComparedAnswers, order: Sequence[str]
    ) -> list[tuple[tuple[str, ...], list[str], dspy.Prediction | None]]:
        """Return criteria, systems in the order shown, and reply of each call; None for an unparseable reply."""
        question = comparison.question
        replies: list[tuple[tuple[str, ...], list[str], dspy.Prediction | None]] = []
        passages, citing = comparison.cited(order)
        if citing:
            reply = try_predict(self.citing, passages=passages, question=question, answers=_numbered(citing.values()))
            replies.append((CRITERIA[:1], list(citing), reply))
        if comparison.golds:
            answers = _numbered(comparison.responses[system] for system in order)
            golds = list(comparison.golds)
            reply = try_predict(self.comparing, right_answers=golds, question=question, answers=answers)
            replies.append((CRITERIA[1:], list(order), reply))
        return replies

    def max_calls(self) -> int:
        """Return the maximum number of LM calls for one question."""
        return 2


def _numbered(responses: Iterable[str]) -> list[str]:
    return [f"answer{number}: {response or '(no answer)'}" for number, response in enumerate(responses, start=1)]


def _places(lines: Sequence[str], count: int) -> list[Place] | None:
    """Return the places of a ranking in its order; None if it does not name each of `count` answers once."""
    found = [match for line in lines for match in _PLACE.finditer(line)]
    places = [Place(int(match[1]) - 1, float(match[2])) for match in found]
    return places if sorted(place.position for place in places) == list(range(count)) else None


def _is_ordered(places: Sequence[Place], criterion: str) -> bool:
    sign = 1 if criterion in LOWER_IS_BETTER else -1
    return all(sign * better.score <= sign * worse.score for better, worse in pairwise(places))


def _with_names(reason: str, order: Sequence[str]) -> str:

    def name(match: re.Match[str]) -> str:
        position = int(match[1]) - 1
        return order[position] if position < len(order) else match[0]

    return _NAME.sub(name, reason).strip()
