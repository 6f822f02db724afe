import dspy
import pytest

from experiments.papers.compiling.gains import row_connection
from programs.lms.calls.budget import Budget, BudgetExceeded
from programs.lms.connect import Connection
from programs.parts.meter import metered
from programs.single_step.rag import RAG


@pytest.fixture
def connection(scripted):
    engine = scripted(lambda system, user: {"answer": "fog"}, cache=True)
    lm, adapter = dspy.settings.lm, dspy.settings.adapter
    return engine, Connection("scripted", lm, adapter, None, "samples")


def ask(connection, retriever, question):
    with connection.use(), metered() as meter:
        answer = RAG(retriever)(question=question).answer
    return answer, meter


def test_a_prompt_of_two_rows_is_computed_once_and_paid_by_both(connection, retriever):
    engine, common = connection
    rows = [row_connection(common, name, Budget(calls=5)) for name in ("one", "other")]
    answers = [ask(row, retriever, "What is it?") for row in rows]
    assert [answer for answer, _ in answers] == ["fog", "fog"]
    assert len(engine.requests) == 1
    assert [row.lm.budget.spent["calls"] for row in rows] == [1, 1]
    assert [(meter.calls, meter.cached_calls) for _, meter in answers] == [(1, 0), (1, 0)]


def test_a_row_does_not_pay_twice_for_a_prompt(connection, retriever):
    _, common = connection
    for _ in range(2):
        row = row_connection(common, "one", Budget(calls=1))
        ask(row, retriever, "What is it?")
    assert row.lm.budget.spent["calls"] == 0


def test_a_row_ends_at_its_budget_although_others_have_paid(connection, retriever):
    _, common = connection
    ask(row_connection(common, "one", Budget(calls=1)), retriever, "What is it?")
    with pytest.raises(BudgetExceeded):
        ask(row_connection(common, "other", Budget(calls=0)), retriever, "What is it?")
