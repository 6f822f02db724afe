"""Questions are thinned to given shares by a hash of their ids."""

import random
from collections import Counter

import pytest

from corpora.datasets.thinning import thin
from corpora.questions import drawn
from signatures.common.errors import UserError


def items(**counts):
    return [f"{label}-{number}" for label, count in counts.items() for number in range(count)]


def label(item):
    return item.split("-")[0]


def thinned(given, shares):
    return thin(given, shares, label, str)


def test_the_largest_subset_with_the_shares_is_chosen():
    found = thinned(items(a=40, b=100, c=5), {"a": 0.8, "b": 0.2})
    assert Counter(map(label, found)) == {"a": 40, "b": 10}
    assert len(thinned(items(a=10, b=10), {"a": 0.5, "b": 0.5})) == 20


def test_the_choice_depends_on_the_ids_alone_and_keeps_the_order():
    given = items(a=20, b=60)
    shuffled = random.Random(3).sample(given, len(given))
    found = thinned(shuffled, {"a": 0.5, "b": 0.5})
    assert set(found) == set(thinned(given, {"a": 0.5, "b": 0.5}))
    assert found == [item for item in shuffled if item in found]


@pytest.mark.parametrize(
    ("shares", "why"),
    [
        ({"a": 0.5}, "1 in all"),
        ({"a": 1.2, "b": -0.2}, "above 0"),
        ({}, "above 0"),
        ({"a": 0.5, "z": 0.5}, "0 items 'z'"),
    ],
)
def test_shares_that_cannot_be_had_are_refused(shares, why):
    with pytest.raises(UserError, match=why):
        thinned(items(a=10, b=10), shares)


def test_a_draw_from_what_was_thinned_keeps_the_shares():
    found = thinned(items(a=800, b=800), {"a": 0.8, "b": 0.2})
    assert 10 <= Counter(map(label, drawn(found, 100, str)))["b"] <= 30
