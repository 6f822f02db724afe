"""Fitting a cascade: rules, thresholds within a cost, and replay that equals running it."""

import random

import dspy
import pytest

from optimizers.cascade.compile import fit_cascade
from optimizers.cascade.fitting import (
    FEWEST,
    Sample,
    fit,
    replayed,
    threshold_for,
    threshold_of_share,
)
from optimizers.cascade.rules import GAIN, LOGISTIC
from programs.cascade import Cascade, parse_weights
from programs.catalog import build
from signatures.common.errors import UserError


def sample(number, *, doubtful, gain, noise=0.0):
    """Return a question whose features tell, but for the noise, that the dear program scores higher by `gain`."""
    features = {"coverage": 0.2 + noise if doubtful else 0.9 - noise, "question_length": (number * 7 % 10) / 10}
    return Sample(f"q{number}", features, 0.5, 0.5 + gain, 100.0, 300.0)


def samples(n=100, seed=0):
    """Return questions of which the third that is badly covered gains, while others lose."""
    draw = random.Random(seed)
    return [
        sample(number, doubtful=number % 3 == 0, gain=0.5 if number % 3 == 0 else -0.3, noise=draw.random() / 6)
        for number in range(n)
    ]


@pytest.mark.parametrize("rules", [None, [LOGISTIC], [GAIN], ["-coverage"]])
def test_a_rule_asks_where_the_dear_program_gains(rules):
    train, test = samples(), samples(60, seed=1)
    fitted = fit(train, rules=rules)
    assert parse_weights(fitted.weights)["coverage"] < 0
    done = replayed(test, fitted.weights, threshold_for(train, fitted.weights))
    assert done.asked == [number % 3 == 0 for number in range(60)]
    assert done.mean == pytest.approx(0.5 + 0.5 / 3)
    assert done.cost == pytest.approx(100 + 300 / 3)


def test_cross_validation_prefers_the_feature_that_tells():
    fitted = fit(samples(), rules=["-coverage", "+coverage", "+question_length"])
    assert fitted.rule == "-coverage"
    assert fitted.validated["-coverage"] > 0.1 > fitted.validated["+question_length"]
    assert fitted.validated["+coverage"] < 0


def test_fitting_is_repeatable_and_survives_features_that_never_change():
    constant = [
        Sample(s.id, {**s.features, "refused": 0.0, "stated": 1.0}, s.cheap, s.dear, s.cheap_cost, s.dear_cost)
        for s in samples()
    ]
    assert fit(constant) == fit(constant)
    assert "stated" not in fit(constant).weights


@pytest.mark.parametrize("gain", [0.0, 1.0])
def test_programs_that_never_differ_can_be_fitted(gain):
    same = [Sample(str(number), {"best": number / 40}, 0.0, gain, 1.0, 2.0) for number in range(40)]
    fitted = fit(same)
    done = replayed(same, fitted.weights, threshold_for(same, fitted.weights))
    assert done.mean == gain
    assert any(done.asked) is bool(gain)


def test_the_threshold_keeps_the_mean_cost_within_a_limit():
    train = samples()
    weights = fit(train).weights
    for most in (100, 130, 160, 500):
        done = replayed(train, weights, threshold_for(train, weights, most_cost=most))
        assert done.cost <= most
    assert not any(replayed(train, weights, threshold_for(train, weights, most_cost=100)).asked)


def test_the_best_threshold_is_the_best_of_all():
    train = samples(60)
    weights = fit(train, rules=[GAIN]).weights
    best = replayed(train, weights, threshold_for(train, weights)).mean
    assert best == max(replayed(train, weights, step / 1000).mean for step in range(1001))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_a_share_of_the_questions_is_asked(share):
    train = samples()
    weights = fit(train).weights
    asked = replayed(train, weights, threshold_of_share(train, weights, share)).asked
    assert sum(asked) == pytest.approx(share * len(train), abs=2)


def test_too_few_questions_and_unknown_rules_are_refused():
    with pytest.raises(UserError, match=f"at least {FEWEST} training questions, got 3"):
        fit(samples(3))
    with pytest.raises(UserError, match="wisdom"):
        fit(samples(), rules=["wisdom"])


# A cascade on a scripted LM: from memory it knows the even numbers, from passages all but the multiples of five.


def reply(system, user):
    number = int(user.split("Number ")[1].split("?")[0])
    knows = number % 5 != 0 if "[1] " in user else number % 2 == 0
    return {"answer": f"right {number}" if knows else "unknown"}


def questions(n, **fields):
    return [
        dspy.Example(id=f"q{number}", question=f"Number {number}?", answers=[f"right {number}"], **fields).with_inputs(
            "question"
        )
        for number in range(n)
    ]


def exact(example, prediction):
    return float(prediction.answer in example.answers)


def test_a_cascade_is_fitted_on_examples(scripted, retriever):
    engine = scripted(reply)
    fitted = fit_cascade(build("standard"), build("rag", retriever), questions(40), exact)
    assert isinstance(fitted, Cascade)
    assert parse_weights(fitted.weights)["refused"] > 0
    assert len(engine.requests) == 80
    for number in range(41, 60):
        assert fitted(question=f"Number {number}?").details["asked"] is (number % 2 == 1)


def test_no_more_tokens_than_allowed_are_spent_on_training_questions(scripted, retriever):
    scripted(reply)
    fitted = fit_cascade(build("standard"), build("rag", retriever), questions(40), exact, most_tokens=0)
    assert fitted.threshold == 1.0


def test_questions_of_a_test_split_are_refused(scripted, retriever):
    with pytest.raises(UserError, match="'q0' is of the split test"):
        fit_cascade(build("standard"), build("rag", retriever), questions(20, split="test"), exact)
