"""What a trial costs does not depend on what was asked before it."""

import json

import pytest

from corpora.questions import Question
from optimizers.tuning.objective import COSTS, LiveEvaluator
from optimizers.tuning.prompts import Prompts
from programs.closed_book.cot import CoT

QUESTIONS = [Question(id=str(number), question=f"Question {number}?", answers=["yes"]) for number in range(3)]


@pytest.fixture
def evaluator(scripted, monkeypatch) -> LiveEvaluator:
    monkeypatch.setattr("dspy.clients.costs.estimate_cost", lambda *args, **kwargs: (0.25, {}))
    scripted(lambda *_: json.dumps({"reasoning": "It is so.", "answer": "yes"}), cache=True)
    return LiveEvaluator(CoT(), Prompts(), lambda example, prediction: 1.0, threads=1)


def test_a_trial_that_is_repeated_costs_the_same_although_its_replies_are_cached(evaluator):
    first, again = (evaluator.evaluate({}, {}, QUESTIONS) for _ in range(2))
    compared = [name for name in COSTS if name != "seconds"]
    assert [[each.cost(name) for name in compared] for each in again] == [
        [each.cost(name) for name in compared] for each in first
    ]
    assert first[0].cost("usd") == again[0].cost("usd") == 0.25
    assert [each.costs["cached_calls"] for each in again] == [1, 1, 1]
