"""Fitting a cascade: rules, thresholds within a cost, and replay that equals running it."""

import random
from dataclasses import replace

import dspy
import pytest

from optimizers import cascade as fitting
from optimizers.cascade import (
    FEWEST,
    RULES,
    CascadeSample,
    ask_both,
    fit,
    fit_cascade,
    replayed,
    threshold_for,
)
from programs.cascade import Cascade
from programs.catalog import build
from programs.parts.logistic import parse_weights
from signatures.common.errors import UserError, UserNotice


def sample(number, *, doubtful, gain, noise=0.0):
    """Return a question whose features tell, but for the noise, that the expensive program scores higher by `gain`."""
    features = {"coverage": 0.2 + noise if doubtful else 0.9 - noise, "question_length": (number * 7 % 10) / 10}
    return CascadeSample(f"q{number}", features, 0.5, 0.5 + gain, 100.0, 300.0)


def samples(n=100, seed=0):
    """Return questions of which the third that is badly covered gains, while others lose."""
    draw = random.Random(seed)
    return [
        sample(number, doubtful=number % 3 == 0, gain=0.5 if number % 3 == 0 else -0.3, noise=draw.random() / 6)
        for number in range(n)
    ]


@pytest.mark.parametrize("rules", [tuple(RULES), *((rule,) for rule in RULES)])
def test_a_rule_asks_where_the_expensive_program_gains(rules, monkeypatch):
    monkeypatch.setattr(fitting, "RULES", {rule: RULES[rule] for rule in rules})
    train, test = samples(), samples(60, seed=1)
    fitted = fit(train)
    assert parse_weights(fitted.weights)["coverage"] < 0
    done = replayed(test, fitted.weights, threshold_for(train, fitted.weights))
    assert done.asked == [number % 3 == 0 for number in range(60)]
    assert done.score == pytest.approx(0.5 + 0.5 / 3)
    assert done.cost == pytest.approx(100 + 300 / 3)


def test_fitting_is_repeatable_and_survives_features_that_never_change():
    constant = [replace(each, features={**each.features, "refused": 0.0, "stated": 1.0}) for each in samples()]
    assert fit(constant) == fit(constant)
    assert "stated" not in fit(constant).weights


@pytest.mark.parametrize("gain", [0.0, 1.0])
def test_programs_that_never_differ_can_be_fitted(gain):
    same = [CascadeSample(str(number), {"best": number / 40}, 0.0, gain, 1.0, 2.0) for number in range(40)]
    fitted = fit(same)
    done = replayed(same, fitted.weights, threshold_for(same, fitted.weights))
    assert done.score == gain
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
    weights = fit(train).weights
    best = replayed(train, weights, threshold_for(train, weights)).score
    assert best == max(replayed(train, weights, step / 1000).score for step in range(1001))


def test_too_few_questions_are_refused():
    with pytest.raises(UserError, match=f"at least {FEWEST} training questions, got 3"):
        fit(samples(3))


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


def number_of(example):
    return int(example.question.split()[1].rstrip("?"))


def test_questions_that_the_metric_does_not_score_are_left_out_and_counted(scripted, retriever):
    """Were they zeros, the expensive program would seem to lose wherever its answer has no score."""
    scripted(reply)

    def sometimes(example, prediction):
        return (
            None if number_of(example) % 4 == 1 and "unknown" not in prediction.answer else exact(example, prediction)
        )

    programs = build("standard"), build("rag", retriever)
    with pytest.warns(UserNotice, match="^8 of 40 questions are left out: 8 that the metric does not score"):
        fitted = fit_cascade(*programs, questions(40), sometimes)
    scored = [example for example in questions(40) if not (number_of(example) % 4 == 1 and number_of(example) % 5)]
    assert len(scored) == 32
    expected = fit_cascade(*programs, scored, exact)
    assert (fitted.weights, fitted.threshold) == (expected.weights, expected.threshold)


def test_a_metric_that_scores_nothing_is_refused(scripted, retriever):
    scripted(reply)
    message = "at least 10 training questions, got 0. 40 of 40 questions are left out: 40 that the metric does not"
    with pytest.warns(UserNotice), pytest.raises(UserError, match=message):
        fit_cascade(build("standard"), build("rag", retriever), questions(40), lambda example, prediction: None)


def test_questions_that_end_in_an_error_are_left_out_and_counted(scripted, retriever):
    class Fragile(dspy.Module):
        def __init__(self, program):
            super().__init__()
            self.program = program

        def forward(self, question, passages=None):
            if question in ("Number 3?", "Number 7?"):
                raise ValueError("no sevens")
            return self.program(question=question, passages=passages)

    scripted(reply)
    asked = ask_both(Cascade(build("standard"), Fragile(build("rag", retriever))), questions(20), exact)
    assert (len(asked.samples), asked.failed, asked.undefined) == (18, 2, 0)
    assert asked.note == ("2 of 20 questions are left out: 2 that ended in an error (ValueError: no sevens).")


def test_an_own_program_may_state_its_answer_alone(scripted):
    class Bare(dspy.Module):
        def forward(self, question, passages=None):
            return dspy.Prediction(answer=question.replace("Number", "right").rstrip("?"))

    scripted(reply)
    asked = ask_both(Cascade(Bare(), build("standard")), questions(20), exact)
    assert (len(asked.samples), asked.failed) == (20, 0)


def test_an_undefined_score_of_an_answer_that_is_not_returned_does_not_matter(scripted, retriever):
    def silent(system, user):
        return {"answer": "" if "[1] " in user else "right"}

    scripted(silent)

    def of_answers(example, prediction):
        return None if prediction.abstained else 1.0

    programs = build("standard"), build("rag", retriever)
    assert ask_both(Cascade(*programs), questions(20), of_answers).undefined == 0
    assert ask_both(Cascade(*programs, fallback=False), questions(20), of_answers).undefined == 20
    assert ask_both(Cascade(*programs, before=True), questions(20), of_answers).undefined == 20


def test_questions_with_one_id_and_too_few_of_them_cost_no_call(scripted, retriever):
    engine, cascade = scripted(reply), Cascade(build("standard"), build("rag", retriever))
    with pytest.raises(UserError, match="have one id"):
        ask_both(cascade, questions(20) + questions(1), exact)
    with pytest.raises(UserError, match="at least 10 training questions, got 9"):
        ask_both(cascade, questions(9), exact)
    with pytest.raises(UserError, match="is of the split [Tt]est"):
        ask_both(cascade, questions(20, split="Test"), exact)
    assert engine.requests == []
