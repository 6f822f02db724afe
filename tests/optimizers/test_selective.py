"""Fitting when a program answers: probabilities that mean what they say, and a precision that holds."""

import random

import dspy
import pytest

from corpora.questions import Question
from optimizers import selective
from optimizers.examples import to_examples
from optimizers.selective import FEWEST, Asked, Graded, Threshold, _shown, _tail, fit, fit_selective, least_for
from programs.parts.logistic import parse_weights, score
from programs.parts.prediction import make_prediction
from signatures.common.errors import UserError, UserNotice


def answers(n, seed=0, *, spread=1.0):
    """Return answers whose stated confidence is too high: they are right with its square."""
    draw = random.Random(seed)
    found = []
    for number in range(n):
        confidence = draw.uniform(1 - spread, 1)
        right = draw.random() < confidence**2
        found.append(Graded(f"q{seed}-{number}", {"confidence": confidence, "unscored": 0.0}, right))
    return found


def precision_of(found, least, weights):
    given = [each.right for each in found if score(each.features, weights) >= least]
    return (sum(given) / len(given) if given else 1.0), len(given) / len(found)


def test_the_fitted_probability_is_that_of_being_right():
    found = fit(Asked(answers(2000)))
    assert (found.rule, found.least, found.tested) == ("stated", 0.0, None)
    assert set(parse_weights(found.weights)) == {"bias", "confidence"}
    for confidence in (0.3, 0.5, 0.7, 0.9):
        stated = score({"confidence": confidence}, found.weights)
        assert stated == pytest.approx(confidence**2, abs=0.06)


def test_what_the_features_tell_beside_the_confidence_is_used_where_it_pays():
    draw = random.Random(1)
    found = []
    for number in range(400):
        stated, confidence = draw.random() < 0.5, draw.random()
        right = draw.random() < (0.9 if stated else 0.1)
        found.append(Graded(f"q{number}", {"confidence": confidence, "stated": float(stated)}, right))
    fitted = fit(Asked(found))
    assert fitted.rule == "all"
    assert parse_weights(fitted.weights)["stated"] > 2
    assert fitted.log_loss["all"] < fitted.log_loss["stated"]


def test_the_precision_holds_on_other_questions_except_in_few_draws():
    fresh, below, covered, certified = answers(4000, seed=99), 0, [], 0
    for seed in range(60):
        try:
            found = fit(Asked(answers(300, seed)), precision=0.6, delta=0.1)
        except UserError:
            continue
        certified += 1
        precision, coverage = precision_of(fresh, found.least, found.weights)
        below += precision < 0.6
        covered.append(coverage)
    assert certified > 45
    assert below <= 12  # the 99.5th percentile of 60 draws at 0.1
    assert sum(covered) / len(covered) > 0.25  # all answers have a precision of a third


def test_the_threshold_is_tested_on_answers_that_were_not_fitted_on():
    found = fit(Asked(answers(400, seed=7)), precision=0.6)
    assert (found.fitted_on, found.tested_on) == (160, 240)
    assert found.tested.least == found.least > 0
    assert _tail(found.tested, 0.6) <= 0.05


def test_a_precision_that_all_answers_have_withholds_none():
    sure = [Graded(f"q{number}", {"confidence": number / 400}, number % 10 != 0) for number in range(400)]
    assert fit(Asked(sure), precision=0.5).least == 0.0


def test_a_precision_that_nothing_shows_is_refused_with_the_one_that_is_shown():
    with pytest.raises(UserError, match=r"precision of 0.99.* which shows 0\.\d\d.*Ask for less"):
        fit(Asked(answers(100)), precision=0.99)


@pytest.mark.parametrize(
    ("name", "value"), [("precision", 1.0), ("precision", 0.0), ("precision", 80), ("delta", 0), ("delta", 5)]
)
def test_a_precision_that_is_no_share_is_refused_before_anything_is_asked(name, value):
    with pytest.raises(UserError, match=f"{name} must be between 0 and 1, both excluded, got {value}"):
        fit_selective(Knows(), examples(40), graded, **{"precision": 0.8, name: value})
    with pytest.raises(UserError, match=name):
        fit(Asked(answers(40)), **{"precision": 0.8, name: value})


@pytest.mark.parametrize(("n", "right", "precision"), [(20, 20, 0.861), (20, 18, 0.717), (50, 25, 0.376), (1, 1, 0.05)])
def test_the_precision_shown_is_the_exact_lower_bound(n, right, precision):
    assert _shown(Threshold(0.5, n, right), 0.05) == pytest.approx(precision, abs=0.0011)


def test_thresholds_after_one_that_fails_are_not_tested():
    weights = "bias=-2 confidence=4"
    own = [Graded(f"a{each}", {"confidence": 0.9 - each // 40 / 10}, each < 40) for each in range(80)]
    other = [Graded(f"b{each}", {"confidence": 0.9 - each // 40 / 10}, not 40 <= each < 80) for each in range(480)]
    tested = least_for(own, other, weights, 0.7, 0.05)
    assert (tested.answered, tested.right) == (40, 40)  # 80 have 0.5, which fails, though all 480 have 0.92


class Knows(dspy.Module):
    """Knows every third number, and says so by its confidence; abstains from multiples of ten."""

    def forward(self, question, passages=None):
        number = int(question.split()[1].rstrip("?"))
        if number % 17 == 16:
            raise ValueError("no idea")
        answer = "" if number % 10 == 0 else "right" if number % 3 == 0 else "wrong"
        return make_prediction(answer, details={"confidence": 0.9 if number % 3 == 0 else 0.2 + number % 7 / 20})

    def max_calls(self):
        return 0


def examples(n):
    return to_examples([Question(id=f"q{each}", question=f"Number {each}?", answers=["right"]) for each in range(n)])


def graded(example, prediction):
    return float(prediction.answer in example.answers)


def test_a_program_is_asked_once_and_answers_where_it_is_right(scripted):
    scripted(lambda system, user: "")
    with pytest.warns(UserNotice, match=r"17 of 300 questions are left out: 17 that ended in an error"):
        fitted = fit_selective(Knows(), examples(300), graded, precision=0.9)
    assert fitted(question="Number 3?").answer == "right"
    assert fitted(question="Number 4?").abstained


def test_abstentions_are_no_answers_and_are_counted(scripted):
    scripted(lambda system, user: "")
    asked = selective.ask(selective.Selective(Knows()), examples(40), graded)
    assert (len(asked.answers), asked.abstained, asked.failed, asked.undefined) == (34, 4, 2, 0)


class Bare(dspy.Module):
    """An own program that states an answer and nothing else."""

    def forward(self, question, passages=None):
        return dspy.Prediction(answer="right" if int(question.split()[1].rstrip("?")) % 3 == 0 else "wrong")


def test_an_own_program_may_state_its_answer_alone(scripted):
    scripted(lambda system, user: "")
    asked = selective.ask(selective.Selective(Bare()), examples(30), graded)
    assert (len(asked.answers), sum(each.right for each in asked.answers), asked.failed) == (30, 10, 0)


@pytest.mark.parametrize(
    ("count", "metric", "message"),
    [
        (FEWEST - 1, graded, "At least 20 training questions"),
        (40, lambda example, prediction: 0.5, "0 or 1"),
        (40, lambda example, prediction: 1.0, "All of the 34 answers that are fitted on are right.*Fit on more"),
        (40, lambda example, prediction: 0.0, "None of the 34 answers that are fitted on are right"),
        (40, lambda example, prediction: None, "got 0. 36 of 40 questions are left out: 34 that the metric does not"),
    ],
)
def test_what_cannot_be_fitted_is_refused(count, metric, message, scripted):
    scripted(lambda system, user: "")
    with pytest.raises(UserError, match=message):
        fit(selective.ask(selective.Selective(Knows()), examples(count), metric))


def test_a_metric_between_0_and_1_ends_it_with_the_first_such_score(scripted):
    scripted(lambda system, user: "")
    scored = []

    def f1(example, prediction):
        scored.append(example.question)
        return 1.0 if len(scored) < 3 else 0.5

    with pytest.raises(UserError, match=r"A score is 0.5"):
        selective.ask(selective.Selective(Knows()), examples(40), f1, threads=1)
    assert len(scored) == 3


def test_a_question_with_two_ids_is_in_one_part_and_asked_once(scripted):
    scripted(lambda system, user: "")
    twice = to_examples([Question(id=f"r{each}", question=f"number {each}", answers=["right"]) for each in range(10)])
    asked = selective.ask(selective.Selective(Bare()), [*examples(30), *twice], graded)
    assert [each.id for each in asked.answers] == [f"q{each}" for each in range(30)]
    assert asked.note == "10 of 40 questions are left out: 10 that ask the same as another."
