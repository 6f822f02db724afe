"""Scores of yes/no questions, each distinct one asked once: P(yes), or numbers that one reply lists for several."""

import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import dspy

from programs.parts.fanout import fanout
from programs.parts.probability import ProbabilityMode, YesProbability, probability

Key = TypeVar("Key", bound=Hashable)


class YesNoQuestion:
    """A yes/no question to a predictor.

    Args:
        predictor: A predictor whose signature has one output, a bool.
        **inputs: The signature's input fields.
    """

    def __init__(self, predictor: dspy.Predict, **inputs: Any):
        self.predictor = predictor
        self.inputs = inputs

    @property
    def key(self) -> tuple[Any, ...]:
        """Return the predictor and the inputs as a hashable key; a passage counts by its id, not by its score."""
        return id(self.predictor), *((name, _hashable(value)) for name, value in self.inputs.items())

    def ask(self) -> YesProbability | None:
        """Call the LM and return P(yes); None if the reply is unparseable."""
        return probability(self.predictor, **self.inputs)


def _hashable(value: Any) -> Any:
    return tuple(getattr(item, "id", item) for item in value) if isinstance(value, list) else value


class YesNoScores:
    """The scores of the yes/no questions asked during one program call; safe under threads."""

    def __init__(self) -> None:
        self._answers: dict[tuple[Any, ...], YesProbability | None] = {}
        self._listed: dict[tuple[Any, ...], float] = {}

    def ask(self, questions: Mapping[Key, YesNoQuestion]) -> dict[Key, float | None]:
        """Return P(yes) in [0, 1] for each question; None if the reply was unparseable.

        The questions that are new are asked in parallel, in one sequential round; no question is asked twice, not even
        after an unparseable reply.
        """
        new = {question.key: question for question in questions.values() if not self._is_known(question)}
        self._answers |= zip(
            new, fanout([question.ask for question in new.values()], width=max(1, len(new))), strict=True
        )
        return {key: self._value(question) for key, question in questions.items()}

    def ask_together(
        self,
        questions: Mapping[Key, YesNoQuestion],
        size: int,
        score: Callable[[list[YesNoQuestion]], Sequence[float | None]],
    ) -> dict[Key, float | None]:
        """Return a score in [0, 1] for each question, as `ask` does, with up to `size` new questions in one call.

        A question that a reply has no score for is asked by itself in a second round, and so is one that would be alone
        in its call.

        Args:
            questions: The questions by key.
            size: The most questions of one call; they are spread evenly.
            score: Makes a call for at least two questions and returns their scores in order, None for none.
        """
        new = {question.key: question for question in questions.values() if not self._is_known(question)}
        groups = [group for group in even_groups(list(new.values()), size) if len(group) > 1]
        replies = fanout([partial(score, group) for group in groups], width=max(1, len(groups)))
        for group, listed in zip(groups, replies, strict=True):
            found = zip(group, listed, strict=True)
            self._listed |= {question.key: value for question, value in found if value is not None}
        self.ask({key: question for key, question in new.items() if key not in self._listed})
        return {key: self._value(question) for key, question in questions.items()}

    def _is_known(self, question: YesNoQuestion) -> bool:
        return question.key in self._listed or question.key in self._answers

    def _value(self, question: YesNoQuestion) -> float | None:
        if question.key in self._listed:
            return self._listed[question.key]
        answer = self._answers[question.key]
        return answer.value if answer else None

    @property
    def mode(self) -> ProbabilityMode | None:
        """Return how P(yes) was computed; None if no reply could be parsed. Listed scores are no P(yes)."""
        return next((answer.mode for answer in self._answers.values() if answer), None)


Item = TypeVar("Item")


def even_groups(items: Sequence[Item], size: int) -> list[list[Item]]:
    """Return items in as few groups of at most `size` as possible, in order; no two differ by more than one in size."""
    count = math.ceil(len(items) / size)
    cuts = [len(items) * number // count for number in range(count + 1)] if count else []
    return [list(items[start:end]) for start, end in itertools.pairwise(cuts)]


def listed_scores(numbers: Sequence[float], count: int) -> list[float | None]:
    """Return one score in [0, 1] for each of `count` pieces; None where a list has no usable one.

    A list of another length is not used at all, because nothing tells which piece a number belongs to. Where any number
    is above 1, all are taken as percentages; what is then outside [0, 1] is not used.
    """
    if len(numbers) != count:
        return [None] * count
    whole = 100.0 if any(number > 1 for number in numbers) else 1.0
    return [number / whole if 0 <= number <= whole else None for number in numbers]
