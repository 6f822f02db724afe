import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.metrics.retrieval import all_gold_at, recall_at, support_f1

IDS = st.lists(st.sampled_from("abcdef"), max_size=8)


def test_recall_is_the_share_of_gold_among_the_first_k() -> None:
    assert recall_at(["x", "a", "y", "b"], ["a", "b"], 2) == 0.5
    assert recall_at(["x", "a", "y", "b"], ["a", "b"], 4) == 1.0
    assert recall_at(["x", "a", "y", "b"], ["a", "b"]) == 1.0


def test_repeats_are_dropped_before_the_cut() -> None:
    assert recall_at(["a", "a", "a", "b"], ["a", "b"], 2) == 1.0
    assert recall_at(["a"], ["a", "a"], 1) == 1.0


def test_all_gold_wants_every_passage() -> None:
    assert all_gold_at(["a", "x"], ["a", "b"], 2) == 0.0
    assert all_gold_at(["a", "b"], ["b", "a"], 2) == 1.0


def test_without_gold_it_is_undefined_not_zero() -> None:
    assert recall_at(["a"], [], 5) is None
    assert all_gold_at(["a"], [], 5) is None
    assert support_f1(["a"], []) is None


def test_citing_nothing_scores_zero() -> None:
    assert support_f1([], ["a"]) == 0.0
    assert support_f1(["a", "x"], ["a", "b"]) == 0.5


def test_a_str_and_a_k_of_zero_are_refused() -> None:
    with pytest.raises(TypeError, match="must be a list"):
        recall_at(["a"], "a", 1)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        recall_at(["a"], ["a"], 0)


@given(read=IDS, gold=IDS.filter(bool), k=st.integers(1, 8))
def test_recall_grows_with_k_and_all_gold_is_recall_one(read: list[str], gold: list[str], k: int) -> None:
    now, later = recall_at(read, gold, k), recall_at(read, gold, k + 1)
    assert now is not None
    assert later is not None
    assert 0.0 <= now <= later <= 1.0
    assert all_gold_at(read, gold, k) == float(now == 1.0)
