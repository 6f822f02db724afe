"""The simulated LM is connected like any other, and wrong ids are refused."""

import dspy
import pytest

from experiments.world.connect import connect_any
from programs.lms.calls.budget import Budget, BudgetExceeded
from programs.parts.meter import metered
from signatures.common.errors import UserError
from signatures.reading import AnswerFromMemory

QUESTION = "Who directed The Distant Signal?"


def test_the_simulated_lm_answers_counts_and_keeps_to_the_budget():
    connection = connect_any("simulated", cache=False, budget=Budget(calls=2))
    assert (connection.context_size, connection.probability_mode) == (8192, "logprobs")
    answer = dspy.Predict(AnswerFromMemory)
    with connection.use(), metered() as meter:
        first, second = answer(question=QUESTION).answer, answer(question=QUESTION).answer
        with pytest.raises(BudgetExceeded):
            answer(question=QUESTION)
    assert first == second
    assert meter.calls == 2
    assert meter.prompt_tokens > 0


def test_seeds_are_different_lms_under_different_names():
    ids = ("simulated", "simulated:0", "simulated:1", "simulated:v2", "simulated:v2:0", "simulated:v2:1")
    names = [connect_any(name, cache=False).lm.model for name in ids]
    assert len(set(names)) == 4
    assert (names[0], names[3]) == (names[1], names[4])


@pytest.mark.parametrize("lm_id", [*(f"simulated:{end}" for end in ("", "x", "-1", "v2:", "v3:1")), "simulation"])
def test_a_wrong_id_is_refused(lm_id):
    with pytest.raises(UserError):
        connect_any(lm_id)


def test_a_server_address_is_refused():
    with pytest.raises(UserError, match="api_base"):
        connect_any("simulated", api_base="http://127.0.0.1:1/v1")
