"""How questions are dealt to shards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.runs.shards import Shard
from signatures.common.errors import UserError


@given(n=st.integers(1, 200), of=st.integers(1, 40))
def test_every_item_is_in_one_shard_and_sizes_differ_by_one_at_most(n, of):
    items, shards = list(range(n)), [Shard(index, of) for index in range(1, of + 1)]
    if of > n:
        with pytest.raises(UserError, match=f"choose at most {n} shards"):
            shards[0].select(items)
        return
    dealt = [shard.select(items) for shard in shards]
    assert sorted(item for part in dealt for item in part) == items
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1
    for shard, part in zip(shards, dealt, strict=True):
        assert part == sorted(part)
        assert [shard.position(place) for place in range(len(part))] == part  # items are their own positions


def test_a_shard_depends_on_nothing_but_positions():
    items = [f"id{n}" for n in range(10)]
    assert Shard(2, 3).select(items) == ["id1", "id4", "id7"]
    assert Shard.parse("2/3") == Shard.parse(" 2 / 3 ") == Shard(2, 3)
    assert str(Shard(2, 3)) == "2/3"


@pytest.mark.parametrize("text", ["0/4", "5/4", "0/0", "1/0"])
def test_a_number_outside_1_to_n_is_refused(text):
    with pytest.raises(UserError, match=f"No shard {text}: shards are numbered from 1 to n"):
        Shard.parse(text)


@pytest.mark.parametrize("text", ["x", "", "1", "1/", "/4", "-1/4", "1/4/2", "1.0/4", "²/4", "1/" + "9" * 5000])
def test_what_is_no_shard_is_refused(text):
    with pytest.raises(UserError, match="A shard is written i/n, as in 1/4 to 4/4"):
        Shard.parse(text)
