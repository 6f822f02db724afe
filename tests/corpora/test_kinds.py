"""Kinds of questions, types of answers, and the choices that a question offers."""

import pytest

from corpora.kinds import answer_type, choices, contains_answer, estimated_kind, kind_of


@pytest.mark.parametrize(
    ("type", "kind"),
    [
        ("bridge", "composed"),
        ("compositional", "composed"),
        ("inference", "composed"),
        ("2hop", "composed"),
        ("4hop3", "composed"),
        ("comparison", "comparison"),
        ("bridge_comparison", "comparison"),
        ("Bridge-comparison", "comparison"),
        ("Knowledge", None),
        (None, None),
    ],
)
def test_types_of_three_benchmarks_are_of_two_kinds(type, kind):
    assert kind_of(type) == kind


def test_a_question_may_state_its_kind():
    assert kind_of(None, "comparison") == kind_of("bridge", "comparison") == "comparison"
    assert kind_of("bridge", 3) == "composed"


def test_the_kind_is_estimated_from_choices_and_from_titles_beside_each_other():
    titles = ["Marl (city)", "Rue"]
    assert estimated_kind("In which country are Marl and Rue?", ["Veld"], titles) == "comparison"
    assert estimated_kind("Is Marl older than Tom?", ["no"], titles) == "comparison"
    assert estimated_kind("Who built the tower of Marl that Rue describes?", ["Eve"], titles) == "composed"
    assert estimated_kind("Who built the tower in the city?", ["Eve"], titles) == "composed"


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("Do the Ossa and the Marn end in one country?", "Yes", "yes"),
        ("Who is older, Ann Marl or Tom Rue?", "Tom Rue", "one of two choices"),
        ("Which opened first Marl Hall or the Rue Theatre?", "Marl Hall", "one of two choices"),
        ("Between Ann Marl and Tom Rue, who is older?", "Ann Marl", "one of two choices"),
        ("When was the architect of Marl Hall born?", "18 July 1902", "number or date"),
        ("How many people live in Marl?", "9,984 people", "number or date"),
        ("When did the mill work?", "from 1986 to 2013", "number or date"),
        ("Which aircraft did Tom Rue fly?", "Boeing 747", "span"),
        ("Who built Marl Hall?", "Ann Marl", "span"),
        ("Who built Marl Hall?", "", "none"),
        ("Who built Marl Hall?", "---", "none"),
        ("Which letter?", "A", "span"),
    ],
)
def test_an_answer_has_one_type(question, answer, expected):
    assert answer_type(question, [answer] if answer else []) == expected


def test_the_other_choice_is_found_too():
    assert choices("Who is older, Ann Marl or Tom Rue?", ["Tom Rue"]) == ("Ann Marl", "Tom Rue")
    assert choices("Which opened first Marl Hall or Rue Theatre?", ["Rue Theatre"]) == ("Marl Hall", "Rue Theatre")
    assert choices("Which band, Marl or Rue, had more members?", ["Marl"]) == ("Marl", "Rue")
    assert choices("Is Marl older?", ["no"]) == ("yes", "no")
    assert choices("Who is older, Ann Marl or Tom Rue?", ["Eve"]) is None
    assert choices("Who is older?", []) is None


def test_an_answer_in_the_question_is_found_by_whole_words():
    assert contains_answer("Which Marl is in Veld?", ["the Marl"])
    assert not contains_answer("Which Marling is in Veld?", ["Marl"])
    assert not contains_answer("Is there no Marl?", ["no"])
    assert contains_answer("Which Marl is in Veld?", ["the city", "Marl"])
