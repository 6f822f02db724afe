"""Which questions compare two things, and what their two values decide."""

from types import SimpleNamespace

import pytest

from programs.parts.reasoning.comparing import compares_two, decided_answer, first_is_lower


@pytest.mark.parametrize(
    "question",
    [
        "Who was born first, Ada Lind or Bo Tarn?",
        "Which film came out earlier, Not Now! or The Ferry (1920 Film)?",
        "Which film has the director born later, The Base (Film) or Orn?",
        "Were Ada Lind and Bo Tarn from the same country?",
        "Was Ada Lind born before Bo Tarn?",
        "Does Ada Lind have the same nationality as Bo Tarn?",
        "谁更早出生，林爱达还是谭博？",
    ],
)
def test_questions_of_two_things_compare(question):
    assert compares_two(question)


@pytest.mark.parametrize(
    "question",
    [
        "Where was the director of The Ferry born?",
        "Which actor starred in Orn and Tarn?",
        "What is the oratorio of Ada Lind about?",
        "Is Orn in Tarn?",
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
    ],
)
def test_the_order_of_two_values(first, second, lower):
    assert first_is_lower(first, second) is lower
    assert first_is_lower(second, first) is (None if lower is None else not lower)


def compared(wanted: str, first_value: str, second_value: str, answer: str) -> str:
    return decided_answer(
        SimpleNamespace(
            first="Ada Lind",
            first_value=first_value,
            second="Bo Tarn",
            second_value=second_value,
            wanted=wanted,
            answer=answer,
        )
    )


def test_values_overrule_the_answer():
    assert compared("lower", "4 May 1901", "1950", "Bo Tarn") == "Ada Lind"
    assert compared("higher", "4 May 1901", "1950", "Ada Lind") == "Bo Tarn"
    assert compared("lower", "Ole Orn: 4 May 1901", "Ida Lund: 1850", "Ada Lind") == "Bo Tarn"
    assert compared("lower", "1901", "1950", "no") == "yes"
    assert compared("higher", "1901", "1950", "yes") == "no"


def test_a_shared_value_decides_yes_or_no():
    assert compared("same", "American", "American actor", "no") == "yes"
    assert compared("same", "Ole Orn: Swedish", "Danish", "yes") == "no"
    assert compared("same", "Swedish", "", "yes") == "yes"  # one value is not known
    assert compared("same", "4 May 1901", "3 June 1901", "yes") == "yes"  # the same year may be asked for
    assert compared("same", "Swedish", "Swedish", "both Swedish") == "both Swedish"


def test_without_an_order_the_answer_stays():
    assert compared("other", "1901", "1950", "Bo Tarn") == "Bo Tarn"
    assert compared("lower", "1901", "unknown", "Bo Tarn") == "Bo Tarn"
    assert compared("lower", "Sweden", "Norway", "no") == "no"
