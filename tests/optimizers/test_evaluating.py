import signal
import threading

import dspy
import pytest

from optimizers.evaluating import evaluate_examples
from optimizers.examples import example_id
from programs.lms.calls.budget import Budget, BudgetExceeded
from programs.single_step.rag import RAG
from signatures.common.errors import UserError


def examples(number):
    rows = [{"id": f"q{n}", "question": f"Question {n}?", "answers": ["right"]} for n in range(number)]
    return [dspy.Example(**row).with_inputs("question") for row in rows]


def score(example, prediction):
    return float(prediction.answer == "right")


def right_if_even(system, user):
    number = int(user.split("Question ")[1].split("?")[0])
    return {"answer": "right" if number % 2 == 0 else "wrong"}


@pytest.mark.parametrize("threads", [1, 4])
def test_outcomes_come_in_the_order_of_the_examples_with_their_costs(scripted, retriever, threads):
    scripted(right_if_even)
    outcomes = evaluate_examples(RAG(retriever), examples(5), score, threads=threads)
    assert [outcome.id for outcome in outcomes] == ["q0", "q1", "q2", "q3", "q4"]
    assert [outcome.score for outcome in outcomes] == [1, 0, 1, 0, 1]
    assert [outcome.cost("calls") for outcome in outcomes] == [1] * 5
    assert all(outcome.cost("tokens") > 0 for outcome in outcomes)


def test_costs_do_not_depend_on_the_cache(scripted, retriever):
    scripted(right_if_even, cache=True)
    first, second = (evaluate_examples(RAG(retriever), examples(3), score) for _ in range(2))
    assert [outcome.costs["cached_calls"] for outcome in second] == [1] * 3
    for name in ("calls", "tokens"):
        assert [each.cost(name) for each in first] == [each.cost(name) for each in second]


class Failing(dspy.Module):
    def __init__(self, error):
        super().__init__()
        self.error = error

    def forward(self, question):
        if "1" in question:
            raise self.error
        return dspy.Prediction(answer="right")


def test_a_question_that_fails_scores_nothing_and_says_why():
    outcomes = evaluate_examples(Failing(RuntimeError("no luck")), examples(2), lambda example, prediction: 1.0)
    assert [outcome.score for outcome in outcomes] == [1, 0]
    assert [outcome.error for outcome in outcomes] == [None, "RuntimeError: no luck"]


@pytest.mark.parametrize("error", [UserError("The LM does not answer."), BudgetExceeded("used up")])
def test_what_would_fail_for_every_question_ends_the_comparison(error):
    with pytest.raises(type(error)):
        evaluate_examples(Failing(error), examples(3), score)


def test_a_spent_budget_ends_the_comparison(scripted, retriever):
    scripted(right_if_even, budget=Budget(calls=2))
    with pytest.raises(BudgetExceeded):
        evaluate_examples(RAG(retriever), examples(4), score, threads=1)


def test_no_question_is_begun_after_ctrl_c():
    """Which the first question sends, and which comes while it is answered."""
    asked, caught, before = [], threading.Event(), set(threading.enumerate())

    def metric(example, prediction):
        asked.append(example.id)
        if len(asked) == 1:
            signal.raise_signal(signal.SIGINT)
        assert caught.wait(30)
        return 1.0

    with pytest.raises(KeyboardInterrupt):
        evaluate_examples(Failing(RuntimeError("no luck")), examples(3), metric, threads=1)
    started = set(threading.enumerate()) - before
    caught.set()
    for thread in started:
        thread.join(30)
    assert asked == ["q0"]


def test_an_example_without_id_is_known_by_its_question():
    assert example_id(dspy.Example(question="Who?").with_inputs("question")) == "Who?"


def test_outcomes_are_reported_as_they_come(scripted, retriever):
    scripted(right_if_even)
    seen = []
    evaluate_examples(RAG(retriever), examples(3), score, threads=1, report=seen.append)
    assert [outcome.id for outcome in seen] == ["q0", "q1", "q2"]
