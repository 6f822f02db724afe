"""Triples become sub-questions in an order in which they can be asked."""

import pytest

from experiments.papers.embedded_lm.derivations import ask, steps_of

BRIDGE = [
    ["Lake Marn", 0, ["Lake Marn", "is located in", "the country of Veld"]],
    ["Ossa (river)", 1, ["Ossa (river)", "flowed to", "Lake Marn"]],
]
QUESTION = "In which country does the Ossa end?"


@pytest.mark.parametrize(
    ("triple", "question"),
    [
        (("Tarn Mill", "was built in", "1640"), "When was Tarn Mill built?"),
        (("Ann Orn (singer)", "was born in", "Brook"), "Where was Ann Orn born?"),
        (("Ann Orn", "was born", "May 4, 1902"), "When was Ann Orn born?"),
        (("Veld", "is directed by", "Bo Velt"), "Who is Veld directed by?"),
        (("Bo Velt", "is a", "Hovian painter"), "What is Bo Velt?"),
        (("Bo Velt", "was the mayor of", "Tarn"), "What was Bo Velt the mayor of?"),
        (("Bo Velt", "starred in", "The Crag"), "Bo Velt starred in what?"),
        (("He", "is a", "painter"), None),
        (("Bo Velt", "is", "and was a painter of some note"), None),
        (("Bo Velt", "none", "Tarn"), None),
        (("Bo Velt", "is a", "man of one two three four five six seven eight words"), None),
        (("", "is a", "painter"), None),
    ],
)
def test_a_triple_is_asked_for_its_object(triple, question):
    assert ask(*triple) == question


def test_hops_are_in_the_order_in_which_they_can_be_asked():
    steps = steps_of(QUESTION, "Veld", [BRIDGE])
    assert [(step.question, step.answer, step.title) for step in steps] == [
        ("Ossa flowed to what?", "Lake Marn", "Ossa (river)"),
        ("Where is Lake Marn located?", "the country of Veld", "Lake Marn"),
    ]


def test_the_first_derivation_that_leads_to_the_answer_counts():
    wrong = [["Ossa (river)", 0, ["Ossa", "is a", "river"]], ["Ossa (river)", 1, ["Ossa", "is a", "border"]]]
    assert steps_of(QUESTION, "Veld", [wrong, BRIDGE]) == steps_of(QUESTION, "Veld", [BRIDGE])
    assert steps_of(QUESTION, "Veld", [wrong]) == steps_of(QUESTION, "Veld", []) == []


def test_what_comes_after_the_answer_is_left_out():
    more = [*BRIDGE, ["Veld", 0, ["the country of Veld", "is a", "kingdom"]]]
    assert len(steps_of(QUESTION, "Veld", [more])) == 2


def test_a_comparison_keeps_both_facts():
    facts = [["Tarn", 0, ["Tarn", "was founded in", "1640"]], ["Brook", 0, ["Brook", "was founded in", "1702"]]]
    assert len(steps_of("Is Tarn older than Brook?", "yes", [facts])) == 2
    assert len(steps_of("Which is older, Tarn or Brook?", "Tarn", [facts])) == 2


def test_a_subject_that_nothing_names_leaves_no_hops():
    assert steps_of("In which country does the river end?", "Veld", [BRIDGE]) == []
