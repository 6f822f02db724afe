"""Scores that are P(yes) of yes/no questions, each distinct question asked once."""

from collections.abc import Hashable, Mapping
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

    def ask(self, questions: Mapping[Key, YesNoQuestion]) -> dict[Key, float | None]:
        """Return P(yes) in [0, 1] for each question; None if the reply was unparseable.

        The questions that are new are asked in parallel, in one sequential round; no question is asked twice, not even
        after an unparseable reply.
        """
        new = {question.key: question for question in questions.values() if question.key not in self._answers}
        self._answers |= zip(
            new, fanout([question.ask for question in new.values()], width=max(1, len(new))), strict=True
        )
        return {key: self._value(question) for key, question in questions.items()}

    def _value(self, question: YesNoQuestion) -> float | None:
        answer = self._answers[question.key]
        return answer.value if answer else None

    @property
    def mode(self) -> ProbabilityMode | None:
        """Return how P(yes) was computed; None if no reply could be parsed."""
        return next((answer.mode for answer in self._answers.values() if answer), None)
