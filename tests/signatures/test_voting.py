import pytest

from signatures.voting import answer_key, majority


@pytest.mark.parametrize(
    ("keys", "place", "agreement"),
    [
        (["a", "b", "b"], 1, 2 / 3),
        (["a", "b"], 0, 1 / 2),  # a tie
        (["b", "a", "a", "b"], 0, 1 / 2),
        (["", "", "b"], 2, 1 / 3),  # two without a vote outnumber none
        (["", "b", "a", "a"], 2, 1 / 2),
        (["", ""], 0, 1.0),
        (["a"], 0, 1.0),
    ],
)
def test_the_most_frequent_key_wins_and_the_earliest_breaks_ties(keys, place, agreement):
    assert majority(keys) == (place, agreement)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The Amber Sea", "amber sea."),
        ("琥珀海", "琥珀海。"),
        ("“琥珀海”", "琥珀海"),
        ("Merrow's", "Merrow"),
        ("A", "a "),  # an article, and a blood group
        ("1,200", "1200"),
    ],
)
def test_answers_of_the_same_words_are_one_vote(one, other):
    assert answer_key(one) == answer_key(other) != ""


@pytest.mark.parametrize(("one", "other"), [("A", "B"), ("yes", "no"), ("琥珀海", "灰海"), ("C", "C++")])
def test_other_answers_are_not(one, other):
    assert answer_key(one) != answer_key(other)


@pytest.mark.parametrize("answer", ["", "  ", "Unknown.", "未知", "I don't know.", "?"])
def test_what_is_no_answer_has_no_vote(answer):
    assert answer_key(answer) == ""
