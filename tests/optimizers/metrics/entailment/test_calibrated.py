import json

import numpy as np
import pytest

from optimizers.metrics.entailment.calibrated import (
    FEATURES,
    WEIGHTS,
    WeightedOracle,
    Weights,
    measure_features,
    stored_weights,
)

PREMISE = "Title: Quillon\nQuillon is a port. Ansa Merrow became its harbour master in 1950, after the flood."


@pytest.mark.parametrize("name", ["lexical", "semantic", "calibrated"])
def test_copies_are_entailed_and_unrelated_or_blank_statements_are_not(name: str) -> None:
    oracle = WeightedOracle(name)
    scores = oracle(
        [
            (PREMISE, "Ansa Merrow became its harbour master in 1950."),
            (PREMISE, "Cheese is made from the milk of goats."),
            ("", "Quillon is a port."),
            (PREMISE, ""),
        ]
    )
    assert scores[0] > oracle.threshold > scores[1]
    assert scores[2:] == [0.0, 0.0]


def test_the_oracle_weighs_exactly_its_features() -> None:
    pairs = [(PREMISE, "Quillon is a port."), (PREMISE, "Ansa Merrow was born in 1950.")]
    oracle = WeightedOracle("calibrated")
    np.testing.assert_allclose(oracle(pairs), oracle.weights(measure_features("calibrated", pairs)), atol=1e-6)


def test_stored_weights_are_for_the_features_of_today_and_never_negative() -> None:
    stored = json.loads(WEIGHTS.read_text())
    assert set(stored["oracles"]) == set(FEATURES)
    assert len(stored["data"]["files"]) == 2
    for name, features in FEATURES.items():
        weights = stored_weights(name)
        assert weights.features == features
        assert min(weights.weight) >= 0
        assert max(weights.weight) > 0


def test_the_fingerprint_changes_with_the_weights_and_unmeasured_weights_have_no_agreement() -> None:
    stored = WeightedOracle("lexical")
    changed = {**stored.weights.as_dict(), "bias": 1.0}
    other = WeightedOracle("lexical", Weights.from_dict(changed))
    assert other.fingerprint != stored.fingerprint
    assert other.agreement is None


@pytest.mark.parametrize("name", FEATURES)
def test_the_committed_oracles_state_their_measured_agreement(name: str) -> None:
    agreement = WeightedOracle(name).agreement
    assert agreement is not None
    assert set(agreement.sets) == {"WiCE", "ExpertQA"}
    for measured in agreement.sets.values():
        assert 0.4 < measured.auc_low < measured.auc < measured.auc_high < 1
        assert measured.auc > 0.5
    assert sum(measured.n for measured in agreement.sets.values()) >= 300


@pytest.mark.slow
def test_the_likelihood_of_a_statement_rises_with_a_premise_that_states_it() -> None:
    statement = "Ansa Merrow became its harbour master."
    said, unsaid = measure_features(
        "likelihood", [(PREMISE, statement), ("It rained for a week in the hills.", statement)]
    )
    assert (said > unsaid).all()
    assert WeightedOracle("likelihood")([("", "x"), ("x", "")]) == [0.0, 0.0]
