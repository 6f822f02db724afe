import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.teleprompters.race.race import better_by_chance, interval


def by_id(values):
    return {f"q{number}": value for number, value in enumerate(values)}


@pytest.mark.parametrize("n", [5, 12, 40])
def test_it_is_the_permutation_test_of_scipy(n):
    from scipy.stats import permutation_test

    rng = np.random.default_rng(n)
    first, second = rng.random(n), rng.random(n) - 0.05
    expected = permutation_test(
        (first, second), lambda a, b, axis: np.mean(a - b, axis=axis), permutation_type="samples",
        alternative="greater", vectorized=True, n_resamples=50_000, rng=1,
    ).pvalue  # fmt: skip
    assert better_by_chance(by_id(first), by_id(second)) == pytest.approx(expected, abs=0.01)


def test_four_questions_gained_and_none_lost_are_one_in_sixteen():
    assert better_by_chance(by_id([1, 1, 1, 1, 0]), by_id([0, 0, 0, 0, 0])) == 1 / 16
    assert better_by_chance(by_id([1, 0, 1]), by_id([1, 0, 1])) == 1.0


def test_only_questions_that_both_answered_count():
    assert better_by_chance({"a": 1.0, "b": 1.0}, {"b": 0.0, "c": 0.0}) == 0.5


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 1.0])), max_size=30))
def test_p_is_a_probability_and_the_order_of_questions_does_not_matter(pairs):
    first, second = by_id([one for one, _ in pairs]), by_id([two for _, two in pairs])
    p = better_by_chance(first, second)
    assert 0 < p <= 1
    assert p == better_by_chance(dict(reversed(first.items())), second)


def test_the_interval_contains_the_mean_and_is_the_same_again():
    scores = by_id([0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0])
    low, high = interval(scores)
    assert low < 5 / 8 < high
    assert interval(scores) == (low, high)
    assert interval(by_id([1.0, 1.0])) == (1.0, 1.0)
