"""Each question in progress may have a budget of its own, beside that of the LM."""

import threading

import dspy
import pytest
from dspy.lm15 import RateLimitError

from programs.lms.calls.budget import Budget, BudgetExceeded, limited_by
from programs.lms.calls.metered import LMUnavailable, metered_lm


def test_questions_side_by_side_have_budgets_of_their_own(scripted):
    whole = Budget(calls=10)
    engine = scripted(lambda system, prompt: {"answer": "yes"}, budget=whole)
    ask = dspy.Predict("question -> answer")
    ended: dict[int, BaseException] = {}
    lm, adapter = dspy.settings.lm, dspy.settings.adapter

    def run(calls: int) -> None:
        with dspy.context(lm=lm, adapter=adapter), limited_by(Budget(calls=calls)):
            try:
                for number in range(5):
                    ask(question=f"{calls} {number}")
            except BudgetExceeded as error:
                ended[calls] = error

    threads = [threading.Thread(target=run, args=(calls,)) for calls in (1, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(engine.requests) == 4
    assert {calls: error.of_question for calls, error in ended.items()} == {1: True, 3: True}
    assert whole.spent["calls"] == 4


def test_tokens_count_as_they_were_reported_and_the_budget_of_the_lm_is_told_apart(scripted):
    scripted(lambda system, prompt: {"answer": "yes"}, budget=Budget(calls=2))
    ask = dspy.Predict("question -> answer")
    own = Budget(tokens=10_000)
    with limited_by(own):
        ask(question="1")
        ask(question="2")
        assert own.spent["tokens"] == 30
        with pytest.raises(BudgetExceeded) as refused:
            ask(question="3")
    assert refused.value.of_question is False


def test_an_lm_that_fails_until_the_budget_of_the_question_is_used_up_is_what_ends_it(echo):
    def refuse(request) -> str:
        raise RateLimitError("429")

    engine, whole = echo(refuse), Budget(calls=5)
    lm = metered_lm("echo/a@1", engine=engine, cache=False, budget=whole)
    with limited_by(Budget(calls=4)), pytest.raises(LMUnavailable, match="429"):
        lm("hello")
    assert len(engine.requests) == 4
    with limited_by(Budget(calls=4)), pytest.raises(BudgetExceeded):  # of the whole work, which ends with it
        lm("hello")
