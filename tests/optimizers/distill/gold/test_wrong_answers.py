"""Wrong answers of the kind that is asked for."""

import random

import pytest

from corpora.questions import Question, SubQuestion
from optimizers.distill.gold.wrong_answers import UNKNOWN, WrongAnswers, kind_of

ASKED = [
    ("Who built it?", "Ann Orn"),
    ("who sings", "Bo Velt"),
    ("When was it built?", "1702"),
    ("Which country is it in?", "Hovia"),
    ("What is Ann's nationality?", "Hovian"),
    ("Is it old?", "yes"),
]


def drawn(question: str, right: str, asked=ASKED) -> set[str]:
    return {WrongAnswers(asked).draw(question, right, random.Random(seed)) for seed in range(30)}


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Who is it?", "who"),
        ("In which country does it lie?", "country"),
        ("What is the nationality of Ann?", "nationality"),
        ("What is Georges Ulm's nationality?", "nationality"),
        ("how many are there", "many"),
        ("Name it.", ""),
    ],
)
def test_what_is_asked_for(question, kind):
    assert kind_of(question) == kind


def test_a_wrong_answer_is_of_the_same_kind_and_never_the_right_one():
    assert drawn("Who is the mayor?", "ann orn") == {"Bo Velt"}
    assert drawn("In which country is Brook?", "Veld") == {"Hovia"}


def test_without_that_kind_digits_decide():
    assert drawn("How old is it?", "40") == {"1702"}
    assert "1702" not in drawn("Where is it?", "Brook")


def test_yes_and_no_are_opposites():
    assert drawn("Is it deep?", "Yes") == {"no"}
    assert drawn("Is it deep?", "no") == {"yes"}


@pytest.mark.parametrize("right", ["Hovia", "Hovian", "the Hovia"])
def test_what_may_mean_the_same_is_not_wrong(right):
    asked = [("Which country?", "Hovia"), ("Which country?", "Hovian")]
    assert drawn("Which country is it?", right, asked) == {UNKNOWN}


def test_dates_that_begin_alike_are_wrong():
    asked = [("When was it?", "1702 in May")]
    assert drawn("When was it?", "1702 in June", asked) == {"1702 in May"}


def test_answers_of_sub_questions_count():
    part = SubQuestion(question="Who was it?", answer="Cy Tarn", gold_ids=["a"])
    question = Question(id="q", question="Where was he born?", answers=["Brook"], sub_questions=[part])
    assert WrongAnswers.of([question]).draw("Who?", "Ann", random.Random(0)) == "Cy Tarn"
    assert len(WrongAnswers.of([question])) == 2


def test_what_somebody_answered_wrongly_is_drawn_before_any_other():
    asked = Question(id="q", question="Who rang it?", answers=["Cy Tarn"], wrong_answers=["Di Orn", "Ed Brook"])
    answers = WrongAnswers.of([asked, Question(id="r", question="Who is it?", answers=["Ann Orn"])])
    assert {answers.draw("Who rang it?", "Cy Tarn", random.Random(seed)) for seed in range(20)} == {
        "Di Orn",
        "Ed Brook",
    }
    assert answers.draw("Who is the mayor?", "Cy Tarn", random.Random(0)) == "Ann Orn"
