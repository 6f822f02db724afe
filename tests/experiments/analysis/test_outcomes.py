"""What went wrong first, told from rows as runs write them."""

import pytest

from experiments.papers.tables.values import (
    FAILED,
    HOP,
    MEMORY,
    MISSED,
    OUTCOMES,
    READ,
    REFUSED,
    RIGHT,
    UNPARSEABLE,
    conversion,
    main_metric,
    outcome,
)


def row(**changes) -> dict:
    return {
        "scores": {"em": 0.0},
        "error": None,
        "abstained": False,
        "parse_failures": 0,
        "answer": "Rulis",
        "passage_ids": ["a", "b"],
        "gold_ids": ["a", "b"],
        "hops": [],
        **changes,
    }


HOPS = [{"question": "Who?", "answer": "Mira Pell drew it."}, {"question": "Where?", "answer": "Rulis"}]


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
        ({"scores": {"em": None}}, None),
    ],
)
def test_the_first_that_holds_is_the_outcome(changes, expected):
    assert outcome(row(**changes), "em") == expected
    assert expected is None or expected in OUTCOMES


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
