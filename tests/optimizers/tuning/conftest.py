"""A program of two knobs whose score is a function of them, and studies of it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import optuna
import pytest

from corpora.questions import Question
from optimizers.evaluating import Outcome
from optimizers.tuning.objective import Goal, Objective
from optimizers.tuning.samplers import open_sampler
from optimizers.tuning.space import Numbers, Options, Space
from programs.parts.meter import Meter

SPACE = Space(
    (Numbers("k", 1, 20, whole=True), Numbers("threshold", 0, 1, whole=False), Options("gate", ("soft", "hard"))),
    {"k": 5, "threshold": 0.5, "gate": "soft"},
)


def counts(**values: float) -> dict[str, float]:
    return {**Meter().counts(), **values}


class Formula:
    """Scores by a formula of (setting, number of the question), and remembers what it was asked."""

    def __init__(self, score: Callable[[Mapping[str, Any], int], float | None]):
        self.score = score
        self.asked: list[tuple[dict[str, Any], list[str]]] = []

    def evaluate(
        self, knobs: Mapping[str, Any], prompts: Mapping[str, str], questions: Sequence[Question]
    ) -> list[Outcome]:
        self.asked.append(({**knobs, **prompts}, [question.id for question in questions]))
        return [
            Outcome(
                question.id,
                self.score({**knobs, **prompts}, int(question.id)),
                counts(calls=knobs.get("k", 1), prompt_tokens=100 * knobs.get("k", 1), cached_tokens=7),
                0.25,
            )
            for question in questions
        ]


def near_seven(setting: Mapping[str, Any], number: int) -> float:
    """Best at k=7 and threshold=0.3; every fourth question is hopeless."""
    if number % 4 == 3:
        return 0.0
    return max(0.0, 1 - abs(setting["k"] - 7) / 14 - abs(setting["threshold"] - 0.3) / 2)


@pytest.fixture
def questions() -> list[Question]:
    return [Question(id=str(number), question=f"Question {number}?") for number in range(24)]


@pytest.fixture
def study_of(questions):
    """Return a function that makes a study in memory and its objective."""

    def make(
        score: Callable[[Mapping[str, Any], int], float | None] = near_seven,
        *,
        sampler: str = "tpe",
        goal: Goal | None = None,
        storage: Any = None,
        space: Space = SPACE,
        **options: Any,
    ) -> tuple[optuna.Study, Objective]:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        goal = goal or Goal()
        study = optuna.create_study(
            storage=storage, study_name="s", directions=goal.directions, sampler=open_sampler(sampler, space, seed=0)
        )
        options = {"prune": False, **options}
        return study, Objective(space, goal, Formula(score), questions, **options)

    return make
