"""Which questions are held back: pinned by value, independent of order and repeats."""

import random

import pytest

from corpora.datasets.heldback import held_back
from signatures.common.errors import UserError


def test_smallest_sha256_are_held_back():
    assert held_back([str(number) for number in range(10)], 3) == {"4", "8", "9"}


def test_order_and_repeats_do_not_matter():
    ids = [f"2hop__{number}" for number in range(40)]
    shuffled = random.Random(0).sample(ids * 2, 80)
    assert held_back(shuffled, 7) == held_back(ids, 7)
    assert len(held_back(ids, 7)) == 7


def test_a_larger_count_only_adds():
    ids = [f"id{number}" for number in range(40)]
    assert held_back(ids, 5) < held_back(ids, 9)


@pytest.mark.parametrize("count", [-1, 4])
def test_impossible_count(count):
    with pytest.raises(UserError, match="cannot be held back: choose 0 to 3"):
        held_back(["a", "b", "c"], count)
