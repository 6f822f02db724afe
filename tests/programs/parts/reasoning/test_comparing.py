"""Which questions compare two things, and what their two values decide."""

from types import SimpleNamespace

import pytest

from programs.parts.reasoning.comparing import (
    about_owners,
    alike,
    compares_two,
    decide,
    first_is_lower,
    name_in,
    with_names_of,
)


@pytest.mark.parametrize(
    "question",
    [
        "Who was born first, Ada Lind or Bo Tarn?",
        "Which film came out earlier, Not Now! or The Ferry (1920 Film)?",
        "Which film has the director born later, The Base (Film) or Orn?",
        "Were Ada Lind and Bo Tarn from the same country?",
        "Was Ada Lind born before Bo Tarn?",
        "Does Ada Lind have the same nationality as Bo Tarn?",
        "Between Ada Lind and Bo Tarn, who is older?",
        "Which band has more members, Orn or Tarn?",
        "谁出生更早，林爱达还是谭博？",
        "甲和乙谁更早出生？",
    ],
)
def test_questions_of_two_things_compare(question):
    assert compares_two(question)


@pytest.mark.parametrize(
    "question",
    [
        "Where was the director of The Ferry born?",
        "Which actor starred in Orn and Tarn?",
        "Who wrote Dead or Alive?",
        "Was Romeo and Juliet written by Shakespeare?",
        "Did the author serve as mayor?",
        "Which is oldest: Orn, Tarn, or Brook?",
        "Is Orn in Tarn?",
        "京都大学的校长是谁？",
        "成都在哪个省？",
    ],
)
def test_other_questions_do_not(question):
    assert not compares_two(question)


@pytest.mark.parametrize(
    ("first", "second", "lower"),
    [
        ("4 May 1901", "May 5, 1901", True),
        ("1932", "4 May 1901", False),
        ("1901-05-04", "May 1901", None),  # may be the same day
        ("1901", "4 May 1901", None),
        ("born in 1850", "in the spring of 1851", True),
        ("1901 to 1960", "4 May 1900 – 3 June 1990", True),  # 59 years and 90
        ("1900 to 1950", "1901 to 1951", None),  # years alone do not say which was longer
        ("12 members", "9 members", False),
        ("1.5 million", "800,000", False),
        ("1,200 m", "800 ft", None),
        ("Sweden", "Norway", None),
        ("1901 or 1902", "1950", None),  # no one date
        ("", "1950", None),
        ("1950年5月4日", "1950年6月", True),
        ("1900年", "1950年", True),
        ("1200 students", "900 students", False),
        ("000", "1950", None),
        ("1999", "5 members", None),
        ("100 BC", "63 BC", None),
        ("公元前221年", "公元前202年", None),
        ("-20 °C", "-5 °C", None),
        ("1985–present", "1999–present", None),
        ("between 1900 and 1910", "1950", None),
        ("before 1900", "1950", None),
        ("1900s", "1950", None),
        ("1,5 km", "2 km", None),
        ("$20 million", "¥900 million", None),
        ("20 %", "30", None),
        ("born 1900, died 1980", "1990", None),  # two years
        ("04/05/1901", "April 20, 1901", None),  # day or month first
        ("25/05/1901", "April 20, 1901", False),
        ("1901 12h EST T", "1950", True),
    ],
)
def test_the_order_of_two_values(first, second, lower):
    assert first_is_lower(first, second) is lower
    assert first_is_lower(second, first) is (None if lower is None else not lower)


ASKED = "Which of them, Ada Lind or Bo Tarn?"
SAME = "Are Ada Lind and Bo Tarn from the same country?"


def stated(
    wanted: str, first_value: str, second_value: str, first="Ada Lind", second="Bo Tarn", answer=""
) -> SimpleNamespace:
    return SimpleNamespace(
        first=first, first_value=first_value, second=second, second_value=second_value, wanted=wanted, answer=answer
    )


def decided(*values: str, question: str = ASKED, **names: str) -> str:
    return decide(question, stated(*values, **names)).answer


def test_values_decide():
    assert decided("lower", "4 May 1901", "1950") == "Ada Lind"
    assert decided("higher", "4 May 1901", "1950") == "Bo Tarn"
    assert decided("lower", "Ole Orn: 4 May 1901", "Ida Lund：1850") == "Bo Tarn"
    before = "Was Ada Lind born before Bo Tarn?"
    assert decided("lower", "1901", "1950", question=before) == "yes"
    assert decided("lower", "1950", "1901", question=before) == "no"
    assert decided("lower", "1950", "1901", question=before, first="Bo Tarn", second="Ada Lind") == "yes"  # swapped


def test_what_is_not_certain_decides_nothing():
    assert decided("other", "1901", "1950") == ""
    assert decided("lower", "1901", "unknown") == ""
    assert decided("lower", "1901", "not stated") == ""
    assert decided("lower", "Sweden", "Norway") == ""
    assert decided("lower", "1901", "1950", first="Ole Orn") == ""  # no name in the question
    assert decided("lower", "1901", "1950", first="Bo Tarn") == ""  # one thing twice


def test_an_equal_value_is_the_same_and_another_may_be_a_synonym():
    assert decided("same", "American", "american", question=SAME) == "yes"
    assert decided("same", "American", "United States", question=SAME) == ""
    assert decided("same", "not stated", "not stated", question=SAME) == ""
    assert decided("same", "4 May 1901", "4 May 1901", question=SAME) == ""
    assert decided("same", "British", "British", question="Are both Ada Lind and Bo Tarn Swedish?") == ""
    assert decided("same", "Swedish", "Swedish") == ""  # no question of yes or no


def test_values_without_a_common_word_differ_where_the_lm_says_so():
    assert decided("same", "Canada", "Nepal", question=SAME, answer="no") == "no"
    assert decided("same", "Canada", "Nepal", question=SAME, answer="yes") == ""
    assert decided("same", "North America", "America", question=SAME, answer="no") == ""
    assert decided("same", "Canada", "", question=SAME, answer="no") == ""
    assert decided("same", "Canada", "Nepal", answer="no") == ""  # no question of yes or no
    assert decide(SAME, stated("same", "Canada", "Nepal", answer="no")).owners == ()  # values, and no owners of any
    about = decide(SAME, stated("same", "Ole Orn: Canada", "Ida Lund: Nepal", answer="no"))
    assert (about.answer, about.owners) == ("no", ("Ole Orn", "Ida Lund"))


@pytest.mark.parametrize(
    "between", ["or", ", or the", "还是", "(the singer) or", "case or", "or the singer", ", or was"]
)
def test_one_or_the_other_is_no_question_of_yes_or_no(between):
    assert decided("lower", "1901", "1950", question=f"Was Ada Lind {between} Bo Tarn born first?") == "Ada Lind"


@pytest.mark.parametrize(
    "question",
    [
        "Were both Ada Lind and Bo Tarn born before 1900?",
        "Is Ada Lind older or younger than Bo Tarn?",
        "Was Ada Lind the first or last after Bo Tarn?",
        "Ada Lind 和 Bo Tarn 相比，Ada Lind 是否更早？",
    ],
)
def test_a_question_of_yes_or_no_that_is_not_of_one_against_the_other_is_not_decided(question):
    assert decided("lower", "1850", "1950", question=question) == ""


def test_names_are_words_of_their_own():
    france = "Which film from France came first, Ran or Orn?"
    assert decided("lower", "1985", "1990", question=france, first="Ran", second="Orn") == "Ran"
    nested = "Was Ada Lind Jr. or Ada Lind born first?"
    assert decided("lower", "1950", "1901", question=nested, first="Ada Lind Jr.", second="Ada Lind") == "Ada Lind"
    directors = "Which film has the director born first, Orn (Film) or Orn 2?"
    owned = decide(directors, stated("lower", "Ole Berg", "Ida Lund", first="Orn", second="Orn 2"))
    assert about_owners(directors, owned) == "Which film has the director born first, Ole Berg or Ida Lund?"


def test_names_are_alike_but_for_case_marks_and_brackets():
    assert alike("George Orn, Jr.", "George Orn Jr. (director)")
    assert alike("Jayaj Devgn", "Ajay Devgn")
    assert not alike("American", "American Music Club")
    assert not alike("", "(film)")


def test_words_of_the_question_say_which_date_is_asked_for():
    older, younger = "Who is older, Ada Lind or Bo Tarn?", "Who is younger, Ada Lind or Bo Tarn?"
    assert decided("higher", "1901", "1950", question=older) == "Ada Lind"
    assert decided("lower", "1901", "1950", question=younger) == "Bo Tarn"
    assert decided("higher", "12 members", "9 members", question=older) == "Ada Lind"  # of dates alone
    title = "Which film came out sooner, The Last Samurai or Ran?"
    assert decided("lower", "2003", "1985", question=title, first="The Last Samurai", second="Ran") == "Ran"


def test_one_date_says_nothing_about_a_length():
    asked = "Who lived longer, Ada Lind or Bo Tarn?"
    assert decided("higher", "1901", "1950", question=asked) == ""
    assert decided("higher", "1901 to 1960", "1950 to 2020", question=asked) == "Bo Tarn"


def test_the_answer_is_spelled_as_in_the_question():
    asked = "Which film came out earlier, En Sømand Går I Land or Bo Tarn?"
    assert name_in(asked, "En Sønd går i land") == "En Sømand Går I Land"
    assert name_in(asked, "Bo Tarn (1988 film)") == ""
    assert name_in("Which came first, Craig v. Boren or Orn?", "Cric Craig v. Boren") == "Craig v. Boren"
    assert decided("lower", "1901", "1950", question="Who was first, ADA LIND or Bo Tarn?") == "ADA LIND"


def test_owners_of_values_are_what_is_to_be_searched_for():
    assert decide(ASKED, stated("lower", "Ole Orn", "Ida Lund")) == (
        "",
        ("Ole Orn", "Ida Lund"),
        ("Ada Lind", "Bo Tarn"),
    )
    dated = decide(ASKED, stated("lower", "Ole Orn: 1901", "Ida Lund: 1950"))  # perhaps by the films' own years
    assert (dated.answer, dated.owners) == ("Ada Lind", ("Ole Orn", "Ida Lund"))
    assert decide(ASKED, stated("lower", "Ole Orn", "1950")).owners == ()
    assert decide(ASKED, stated("lower", "1901", "May 1950")).owners == ()
    assert decide(ASKED, stated("lower", "Ole Orn: 1901", "Ole Orn: 1950")).owners == ()  # one and the same
    roles = decide(ASKED, stated("lower", "director: Ole Orn", "director: Ida Lund: 1950"))
    assert roles.owners == ("Ole Orn", "Ida Lund")
    assert decide(ASKED, stated("lower", "Ole Orn", "Bo Tarn")).owners == ()  # no owner, the thing itself
    assert decide(ASKED, stated("other", "Ole Orn", "Ida Lund")).owners == ()
    assert decide(ASKED, stated("lower", "not stated", "unknown")).owners == ()


@pytest.mark.parametrize("swapped", [False, True])
def test_owners_are_compared_in_place_of_what_they_belong_to(swapped):
    film = stated("lower", "Ole Orn", "Ida Lund")
    if swapped:
        film = stated("lower", "Ida Lund", "Ole Orn", first="Bo Tarn", second="Ada Lind")
    named = decide(ASKED, film)
    assert named.owners == ("Ole Orn", "Ida Lund")
    assert about_owners(ASKED, named) == "Which of them, Ole Orn or Ida Lund?"
    merged = with_names_of(named, stated("higher", "1901", "1950", first="Ole Orn", second="Ida Lund"))
    assert decide(ASKED, merged).answer == "Bo Tarn"
