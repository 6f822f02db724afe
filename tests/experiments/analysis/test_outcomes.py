"""What went wrong first, told from rows as runs write them."""

import pytest

from experiments.analysis.outcomes import (
    FAILED,
    HOP,
    MEMORY,
    MISSED,
    OUTCOMES,
    READ,
    REFUSED,
    RIGHT,
    ROUNDS,
    UNPARSEABLE,
    conversion,
    first_wrong_hop,
    found_outcomes,
    in_words,
    main_metric,
    outcome,
    outcome_means,
)
from programs.catalog import PROGRAMS


def row(**changes) -> dict:
    return {
        "question": "Where was who drew it born?",
        "scores": {"em": 0.0},
        "error": None,
        "abstained": False,
        "parse_failures": 0,
        "answer": "Rulis",
        "answers": ["Vadley"],
        "passage_ids": ["a", "b"],
        "gold_ids": ["a", "b"],
        "hops": [],
        **changes,
    }


HOPS = [{"question": "Who?", "answer": "Mira Pell drew it."}, {"question": "Where?", "answer": "Rulis"}]
WHOLE = "where was who drew it born"
SEARCHES = [{"question": "who drew it", "answer": ""}, {"question": "Mira Pell", "answer": None}]
DRAFTS = [{"question": WHOLE, "answer": "Vadley"}, {"question": f"She is from Vadley. {WHOLE}?", "answer": "Rulis"}]
ROUNDS_AGAIN = [{"question": WHOLE, "answer": "Vadley"}, {"question": "Mira Pell birth", "answer": "Rulis"}]
SENTENCES = [
    {"question": WHOLE, "answer": "Mira Pell drew it."},
    {"question": "Mira Pell drew it.", "answer": "Rulis."},
]
GOLD = {"sub_answers": ["Mira Pell", "Vadley"]}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"scores": {"em": 1.0}, "passage_ids": ["a"]}, RIGHT),  # a right answer is right whatever was read
        ({"error": "ValueError: x"}, FAILED),
        ({"error": "ValueError: x", "scores": {"em": None}}, FAILED),
        ({"abstained": True, "answer": "", "passage_ids": ["a"]}, REFUSED),
        ({"abstained": True, "answer": "", "parse_failures": 1}, UNPARSEABLE),
        ({"answer": " ", "parse_failures": 2}, UNPARSEABLE),
        ({"parse_failures": 1}, READ),  # a reply was unreadable, but there is an answer
        ({"passage_ids": ["a", "c"]}, MISSED),
        ({"passage_ids": []}, MEMORY),
        ({"gold_ids": []}, READ),
        ({"hops": HOPS, "sub_answers": ["Mira Pell", "Vadley"]}, READ),  # the earlier step is right
        ({"hops": HOPS, "sub_answers": ["Ortel", "Vadley"]}, HOP),
        ({"hops": HOPS, "sub_answers": ["Ortel", "Vadley"], "passage_ids": ["a"]}, MISSED),
        ({"hops": HOPS, "sub_answers": ["Ortel", "Vadley"], "passage_ids": []}, HOP),
        ({**GOLD, "hops": SEARCHES}, READ),  # searches state nothing that could be wrong
        ({**GOLD, "hops": SEARCHES, "passage_ids": []}, MEMORY),
        ({**GOLD, "hops": [*SEARCHES, {"question": "who drew it", "answer": "Ortel"}]}, HOP),
        ({**GOLD, "hops": DRAFTS}, READ),  # answers to the whole question
        ({**GOLD, "hops": SENTENCES}, READ),  # what the first sentence states is stated
        ({**GOLD, "hops": [SENTENCES[0] | {"answer": "Ortel drew it."}, SENTENCES[1]]}, HOP),
        ({**GOLD, "hops": HOPS, "answers": ["yes"]}, HOP),  # a comparison: its last step is on the way, too
        ({"hops": HOPS, "sub_answers": ["Mira Pell", "Rulis"], "answers": ["yes"]}, READ),
        ({**GOLD, "hops": HOPS, "answers": ["the city of Vadley"]}, READ),
        ({"scores": {"em": None}}, None),
    ],
)
def test_the_first_that_holds_is_the_outcome(changes, expected):
    assert outcome(row(**changes), "em") == expected
    assert expected is None or expected in OUTCOMES


@pytest.mark.parametrize("program", sorted(ROUNDS))
def test_rounds_over_the_whole_question_are_no_steps(program):
    assert program in PROGRAMS
    assert outcome(row(**GOLD, hops=ROUNDS_AGAIN), "em", program=program) == READ
    assert outcome(row(**GOLD, hops=ROUNDS_AGAIN), "em", program="self_ask") == HOP


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"scores": {"em": 1.0}}, "right"),
        ({}, "read wrong: all gold passages were read"),
        ({"gold_ids": []}, "read wrong: passages were read, and no gold ones are named"),
        ({"passage_ids": ["a", "c"]}, "retrieval missed: 1 of 2 gold passages not read"),
        ({"passage_ids": []}, "wrong from memory: nothing was read"),
        ({"abstained": True}, "refused: the program declined"),
    ],
)
def test_the_outcome_is_said_in_words(changes, words):
    given = row(**changes)
    assert in_words(given, outcome(given, "em")).startswith(words)


TWO = {"sub_answers": ["Edrin Tollavar", "Gorran Pike", "Quillbay"], "answers": ["Quillbay"]}


def hops(*answers, asked="who"):
    return {"hops": [{"question": asked, "answer": answer} for answer in answers]}


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        (hops("Edrin Tollavar", "Marrowgate"), 1),
        (hops("Marrowgate", "Edrin Tollavar"), 0),
        (hops("Quillbay", "It was Edrin Tollavar.", "Pike"), None),  # states or is part of one, in any order
        (hops("Gorran Pike", "Edrin Tollavar", "Marrowgate"), None),  # the earlier steps are right: read wrong
        (hops("", None, "Marrowgate"), 2),  # a search settles nothing
        (hops("Marrowgate", "Quillbay", asked=WHOLE), None),  # drafts are no steps
        (hops(), None),
    ],
)
def test_the_first_step_that_states_no_gold_is_wrong_where_a_hop_is(changes, place):
    given = row(**TWO, **changes)
    assert first_wrong_hop(given, "self_ask") == place
    assert place is None or outcome(given, "em", program="self_ask") == HOP
    assert first_wrong_hop(given, "iter_retgen") is None  # before, its first draft was "the first wrong hop"
    assert first_wrong_hop({**given, "sub_answers": []}, "self_ask") is None


def test_shares_are_of_the_repeats_with_a_score():
    right, missed, unknown = row(scores={"em": 1.0}), row(passage_ids=["a"]), row(scores={"em": None})
    questions = [[right, missed, unknown], [unknown], [missed]]
    (found,) = outcome_means([(questions, found_outcomes(questions, "em", "rag"))], "em")
    assert (found[RIGHT].mean, found[MISSED].mean, found[READ].mean) == (0.25, 0.75, 0.0)
    assert found[RIGHT].n == 2


def test_conversion_counts_answers_whose_gold_was_all_read():
    assert conversion(row(scores={"em": 1.0}), "em") == 1.0
    assert conversion(row(), "em") == 0.0
    assert conversion(row(passage_ids=["a"], scores={"em": 1.0}), "em") is None
    assert conversion(row(gold_ids=[]), "em") is None


def test_the_metric_that_decides_is_an_accuracy_that_no_lm_gives():
    assert main_metric(["f1[hotpot]", "em", "acc[judge]", "acc[substring]"]) == "acc[substring]"
    assert main_metric(["em", "acc[substring]", "acc[yes_no]"]) == "acc[yes_no]"
    assert main_metric(["acc[judge]", "em"]) == "em"
    assert main_metric(["f1[hotpot]"]) is None


@pytest.mark.parametrize("program", ["ensemble", "cascade", "selective", "knn"])
def test_hops_of_a_program_that_asks_others_are_not_taken_for_steps(program):
    """Before, a round of `cov_rag` in a vote was a wrong hop, although it answers the whole question."""
    given = row(hops=ROUNDS_AGAIN, answers=["Vadley"], **GOLD)
    assert outcome(given, "em", program=program) == READ
    assert first_wrong_hop(given, program) is None
