import random

import pytest

from corpora.questions import Question
from experiments.papers.compiling.gains import SHARES, SPLITS, divide
from signatures.common.errors import UserError


def by_set(extra=5):
    return {
        name: [
            Question(id=f"{name}-{n}", question=f"What is {name} {n}?", split="dev")
            for n in range(sum(shares.values()) + extra)
        ]
        for name, shares in SHARES.items()
    }


def test_splits_have_their_shares_and_no_question_twice():
    splits = divide(by_set())
    assert {split: len(found) for split, found in splits.items()} == {
        split: sum(shares[split] for shares in SHARES.values()) for split in SPLITS
    }
    ids = [question.id for found in splits.values() for question in found]
    assert len(ids) == len(set(ids))
    assert all(question.split == split for split, found in splits.items() for question in found)


def test_splits_do_not_depend_on_the_order_of_the_files():
    given = by_set()
    shuffled = {name: random.Random(1).sample(questions, len(questions)) for name, questions in given.items()}
    assert divide(given) == divide(shuffled)


def test_questions_for_scoring_alone_are_tested_on_and_never_compiled_with():
    given = by_set()
    given["musique"] = [
        each.model_copy(update={"split": "train" if place < 30 else "dev"})
        for place, each in enumerate(given["musique"])
    ]
    held_back = {each.id for each in given["musique"][:30]}
    splits = divide(given)
    for split in ("train", "dev"):
        assert {each.id for each in splits[split] if each.id.startswith("musique")} <= held_back
    assert sum(each.id.startswith("musique") for each in splits["test"]) == SHARES["musique"]["test"]


def test_the_first_test_questions_are_of_all_sets():
    first = divide(by_set())["test"][:100]
    assert {question.id.rsplit("-", 1)[0] for question in first} == set(SHARES)


def test_a_set_that_is_too_small_is_refused():
    few = by_set()
    few["musique"] = few["musique"][:74]
    with pytest.raises(UserError, match="musique has 74 questions here; the comparison takes 75"):
        divide(few)
