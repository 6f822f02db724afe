from typing import Any

import dspy
import pytest
from pydantic import BaseModel

from optimizers.examples import bootstrap_metric, graded_metric, to_examples
from optimizers.metrics.catalog import Metric, get_metric
from signatures.common.errors import UserError


class Asked(BaseModel):
    id: str
    question: str
    answers: list[str] = []
    gold_ids: list[str] = []


EXAMPLE = to_examples([Asked(id="1", question="Where?", answers=["Paris", "City of Light"], gold_ids=["p"])])[0]


def test_only_the_question_is_an_input_and_gold_travels_along() -> None:
    assert set(EXAMPLE.inputs().keys()) == {"question"}
    assert EXAMPLE.answers == ["Paris", "City of Light"]
    assert EXAMPLE.gold_ids == ["p"]


def test_a_labelled_demonstration_has_the_first_answer() -> None:
    assert EXAMPLE.answer == "Paris"
    assert "answer" not in to_examples([Asked(id="2", question="Who?")])[0]


def test_while_bootstrapping_only_a_score_at_the_threshold_is_a_success() -> None:
    metric = bootstrap_metric(get_metric("f1[squad]"), threshold=0.6)
    half = dspy.Prediction(answer="Paris in northern France")
    assert metric(EXAMPLE, half, trace=[]) is False
    assert metric(EXAMPLE, half) == pytest.approx(0.4)
    assert metric(EXAMPLE, dspy.Prediction(answer="Paris"), trace=[]) is True


def test_a_failure_is_falsy_in_every_form() -> None:
    wrong = dspy.Prediction(answer="Rome")
    for metric in (bootstrap_metric(get_metric("em")), graded_metric(get_metric("em"))):
        assert not metric(EXAMPLE, wrong)
        assert not metric(EXAMPLE, wrong, [])


def test_a_graded_metric_stays_graded_with_a_trace() -> None:
    metric = graded_metric(get_metric("f1[squad]"))
    assert metric(EXAMPLE, dspy.Prediction(answer="Paris in northern France"), [], "read", []) == pytest.approx(0.4)


def test_an_undefined_score_is_no_demonstration() -> None:
    metric = bootstrap_metric(get_metric("em"))
    unlabelled = dspy.Example(question="?").with_inputs("question")
    assert metric(unlabelled, dspy.Prediction(answer="x"), []) is False
    assert metric(unlabelled, dspy.Prediction(answer="x")) == 0.0


def test_bootstrapping_collects_right_runs_only() -> None:
    class Reader(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.read = dspy.Predict("question -> answer")

        def forward(self, question: str) -> dspy.Prediction:
            return self.read(question=question)

    questions = [Asked(id=str(n), question=f"q{n}", answers=["right" if n % 2 else "other"]) for n in range(6)]
    replies: list[dict[str, Any]] = [{"answer": "right"}] * 20
    with dspy.context(lm=dspy.utils.DummyLM(replies)):
        optimizer = dspy.BootstrapFewShot(bootstrap_metric(get_metric("f1[hotpot]")), max_labeled_demos=0)
        compiled = optimizer.compile(Reader(), trainset=to_examples(questions))
    assert sorted(demo.question for demo in compiled.read.demos) == ["q1", "q3", "q5"]


def test_a_metric_that_is_better_when_lower_and_a_threshold_of_zero_are_refused() -> None:
    with pytest.raises(UserError, match="better when lower"):
        graded_metric(Metric("bias", "Bias.", lambda example, prediction: 0.0, "https://x", higher_is_better=False))
    with pytest.raises(UserError, match="above 0, got 0"):
        bootstrap_metric(get_metric("em"), threshold=0)
