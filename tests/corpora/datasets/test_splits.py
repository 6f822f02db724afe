"""Division of questions into train, dev and test."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.datasets.splits import divide
from corpora.questions import Question
from signatures.common.errors import UserError, UserNotice


def asked(*words: str, split: str | None = None) -> list[Question]:
    return [Question(id=f"q{place}", question=text, split=split) for place, text in enumerate(words)]


MANY = asked(*(f"Which river is number {number}?" for number in range(50)))


@given(st.permutations(MANY), st.integers(0, 20), st.integers(0, 20))
def test_sizes_are_kept_and_the_order_of_the_file_decides_nothing(
    questions: list[Question], dev: int, test: int
) -> None:
    divided = divide(questions, dev=dev, test=test)
    assert [each.id for each in divided] == [each.id for each in questions]
    counts = Counter(each.split for each in divided)
    assert (counts["dev"], counts["test"], counts.total()) == (dev, test, 50)
    assert {each.id: each.split for each in divided} == {
        each.id: each.split for each in divide(MANY, dev=dev, test=test)
    }


def test_a_share_is_a_number_of_questions_and_a_larger_test_contains_a_smaller_one() -> None:
    few, many = ({each.id for each in divide(MANY, test=size) if each.split == "test"} for size in (0.1, 20))
    assert (len(few), len(many)) == (5, 20)
    assert few < many


def test_questions_of_the_same_words_are_in_the_same_split() -> None:
    texts = [text for number in range(40) for text in (f"Who met {number}?", f"who  met {number}")]
    by_words: dict[str, set[str | None]] = {}
    for each in divide(asked(*texts), dev=20, test=20):
        by_words.setdefault(each.question.lower().replace("  ", " ").rstrip("?"), set()).add(each.split)
    assert all(len(splits) == 1 for splits in by_words.values())
    assert len(by_words) == 40


def test_what_a_part_lacks_is_said() -> None:
    with pytest.warns(UserNotice, match="2 dev and 1 test questions fewer than asked for"):
        assert {each.split for each in divide(asked(*["Who?"] * 10), dev=2, test=1)} == {"train"}


def test_questions_without_words_are_apart() -> None:
    assert Counter(each.split for each in divide(asked("?", "!", "..."), test=1)) == {"test": 1, "train": 2}


def test_a_split_is_divided_into_parts_that_pass_for_no_official_one_and_others_stay() -> None:
    official = [*asked("A?", "B?", "C?", "D?", split="dev"), Question(id="t", question="E?", split="train")]
    divided = divide(official, test=2, split="dev")
    assert Counter(each.split for each in divided) == {"dev-test": 2, "dev-train": 2, "train": 1}
    assert divided[-1] == official[-1]
    with pytest.raises(UserError, match="Other questions already have the split 'dev-test'"):
        divide([*official, Question(id="u", question="F?", split="dev-test")], test=2, split="dev")


@pytest.mark.parametrize(
    ("questions", "sizes", "said"),
    [
        (MANY, {"dev": 25, "test": 25}, "leave none of 50 for training"),
        (MANY, {"dev": 1.5}, "dev questions must be a whole number, or a share below 1, got 1.5"),
        (MANY, {"test": -1}, "test questions must be a whole number"),
        (asked("A?", split="dev"), {"test": 0.5}, r"1 questions already have a split \(dev\)"),
        (MANY, {"dev": float("nan")}, "dev questions must be a whole number, or a share below 1, got nan"),
        (MANY, {"test": float("inf")}, "test questions must be a whole number, or a share below 1, got inf"),
        (asked("A?", "B?", "C?"), {"dev": 0.1}, "A share of 0.1 of 3 questions gives no dev question"),
        (asked("A?", split="train"), {"split": "dev"}, "No question has the split 'dev'. The file has: train"),
    ],
)
def test_what_cannot_be_divided_is_an_error(questions: list[Question], sizes: dict[str, float], said: str) -> None:
    with pytest.raises(UserError, match=said):
        divide(questions, **sizes)
