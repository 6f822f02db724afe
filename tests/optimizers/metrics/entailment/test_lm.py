from types import SimpleNamespace

import dspy
import pytest

from optimizers.metrics.entailment.catalog import LMOracle, open_oracle
from programs.parts.meter import metered


@pytest.fixture
def connection(scripted):
    """A judge that says yes if the statement is in the premise, and replies unparseably about fog."""

    def reply(system: str, user: str):
        if "fog" in user:
            return "hm"
        return "Yes." if user.count("blue") > 1 else "no"

    engine = scripted(reply)

    def use():
        return dspy.context(lm=dspy.settings.lm, adapter=dspy.settings.adapter)

    return SimpleNamespace(id="tiny", lm=dspy.settings.lm, probability_mode="samples", use=use, engine=engine)


def test_p_yes_per_pair_in_order_and_unparseable_replies_are_zero_and_counted(connection) -> None:
    oracle = LMOracle(connection)
    pairs = [("the sky is blue", "it is blue"), ("the sky is red", "it is blue"), ("fog", "it is blue"), ("", "x")]
    assert oracle([*pairs, pairs[0]]) == [1.0, 0.0, 0.0, 0.0, 1.0]
    assert oracle.unparsed == 1
    assert "the sky is red" in "".join(connection.engine.prompts)


def test_the_judges_calls_are_not_the_questions_calls(connection) -> None:
    with metered() as meter, dspy.context(trace=[]):
        LMOracle(connection)([("the sky is blue", "it is blue"), ("the sky is red", "it is blue")])
        assert dspy.settings.trace == []
    assert meter.calls == 0


def test_unparseable_replies_are_the_scores_unparsed_verdicts(connection) -> None:
    with metered() as meter:
        LMOracle(connection)([("fog", "it is blue"), ("the sky is red", "it is blue")])
    assert meter.parse_failures == 1


def test_an_unparseable_verdict_is_unparsed_every_time_it_is_asked_for(connection) -> None:
    oracle = open_oracle("lm", connection=connection)
    counted = []
    for _ in range(2):
        with metered() as meter:
            oracle([("fog", "it is blue")])
        counted.append(meter.parse_failures)
    assert counted == [1, 1]


def test_name_and_fingerprint_tell_the_model(connection) -> None:
    oracle = open_oracle("lm", connection=connection, cache=False)
    assert oracle.name == "lm:tiny"
    assert connection.lm.model in oracle.fingerprint
    verbalised = LMOracle(SimpleNamespace(**{**vars(connection), "probability_mode": "verbalised"}))
    assert verbalised.fingerprint != oracle.fingerprint
