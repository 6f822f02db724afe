"""Intervals that share their draws are those of the straightforward computation, column by column."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from experiments.analysis import statistics
from experiments.analysis.statistics import (
    bootstrap_intervals,
    both_tails,
    draw_p,
    mcnemar,
    mean_of,
    mean_of_means,
    means_and_differences,
    means_of,
    paired,
    places_p,
)

VALUES = st.lists(st.none() | st.floats(-5, 5) | st.sampled_from([0.0, 1.0]), min_size=0, max_size=25)


def straightforward(values: list[float], resamples: int, seed: int) -> tuple[float, float]:
    """The interval as it was computed first: every resample is gathered and averaged, one column at a time."""
    data = np.asarray(values)
    draws = np.random.default_rng(seed).integers(0, len(data), size=(resamples, len(data)))
    low, high = np.quantile(data[draws].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


@settings(max_examples=60)
@given(
    columns=st.lists(st.lists(st.floats(-5, 5), min_size=1, max_size=12), min_size=1, max_size=6),
    seed=st.integers(0, 99),
    block=st.sampled_from([1, 30, 10**6]),
)
def test_shared_draws_give_the_intervals_of_separate_ones(columns: list[list[float]], seed: int, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "_BLOCK", block)  # resamples are drawn in blocks of any size
        shared = bootstrap_intervals(columns, resamples=50, seed=seed)
    for values, (low, high) in zip(columns, shared, strict=True):
        assert (low, high) == pytest.approx(straightforward(values, 50, seed), abs=1e-8)


def test_the_default_interval_of_many_questions_is_the_straightforward_one() -> None:
    draw = np.random.default_rng(5)
    columns = [draw.integers(0, 2, 1500).tolist(), draw.random(1500).tolist(), (1e4 * draw.random(1400)).tolist()]
    for values, found in zip(columns, bootstrap_intervals(columns), strict=True):
        assert found == pytest.approx(straightforward(values, 2000, 0), abs=1e-8)


def test_columns_of_a_mean_of_means_are_drawn_apart() -> None:
    """The variances of the columns add up; with the same draws their standard errors would."""
    found = mean_of_means([[0.0, 1.0] * 200, [0.0, 1.0] * 200])
    assert found is not None
    error = 0.5 / 400**0.5 / 2**0.5
    assert (found.low, found.high) == pytest.approx((0.5 - 1.96 * error, 0.5 + 1.96 * error), abs=0.004)
    assert (found.mean, found.n, found.undefined) == (0.5, 800, 0)


def test_columns_of_one_sample_are_drawn_together_and_count_once() -> None:
    """Before, they were taken as independent."""
    one, other = [0.0, 1.0] * 200, [1.0, 0.0, None] * 100
    alone, twice = mean_of_means([one]), mean_of_means([one, one], ["a", "a"])
    assert twice == alone
    assert mean_of_means([one, other], ["a", "b"]) == mean_of_means([one, other])


def test_a_mean_of_means_needs_a_value_of_each_column_and_two_for_an_interval() -> None:
    assert mean_of_means([[1.0, 0.0], [None]]) is None
    found = mean_of_means([[1.0, 0.0, None], [1.0]])
    assert found is not None
    assert (found.mean, found.low, found.n, found.undefined) == (0.75, None, 3, 1)


@settings(max_examples=60)
@given(columns=st.lists(VALUES, min_size=2, max_size=5), seed=st.integers(0, 9))
def test_many_columns_give_what_each_gives_alone(columns: list[list[float | None]], seed: int) -> None:
    shortest = min(map(len, columns))
    columns = [values[:shortest] for values in columns]
    pairs = [(0, place) for place in range(1, len(columns))]
    means, differences = means_and_differences(columns, pairs, resamples=40, seed=seed)
    for values, mean in zip(columns, means, strict=True):
        assert close(mean.as_dict(), mean_of(values, resamples=40, seed=seed).as_dict())
    for (first, second), found in zip(pairs, differences, strict=True):
        alone = paired(columns[first], columns[second], resamples=40, seed=seed)
        assert close(found.as_dict(), alone.as_dict())


def close(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return first.keys() == second.keys() and all(
        abs(first[name] - second[name]) < 1e-9 if isinstance(first[name], float) else first[name] == second[name]
        for name in first
    )


def test_undefined_values_are_resampled_by_nobody() -> None:
    some, every = means_of([[1.0, None, 0.0, 0.5, None], [1.0, 0.0, 0.5]])
    assert (some.low, some.high, some.n, some.undefined) == (every.low, every.high, 3, 2)


def test_no_column_and_columns_without_an_interval() -> None:
    assert means_and_differences([]) == ([], [])
    one, none = means_of([[0.5], [None]])
    assert (one.mean, one.low, none.mean, none.n) == (0.5, None, None, 0)


@given(
    pairs=st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3)), min_size=2, max_size=30).filter(
        lambda pairs: np.var([b - a for a, b in pairs]) > 1e-6
    )
)
def test_the_t_test_is_that_of_scipy(pairs: list[tuple[float, float]]) -> None:
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    # Where the differences cancel, t is rounding alone: its tails, not its digits, are held to 12 digits below.
    found = paired(first, second, resamples=1).p_t_test
    assert found == pytest.approx(stats.ttest_rel(second, first).pvalue, rel=1e-7, abs=1e-300)


@pytest.mark.parametrize("freedom", [1, 2, 3, 8, 29, 99, 1000, 8000])
def test_the_tails_of_students_t_are_those_of_scipy(freedom: int) -> None:
    ts = [0.001, 0.3, 0.9, 1.0, 1.2, 1.3, 1.96, 2.6, 5.0, 20.0, 1000.0]
    expected = [2 * stats.t.sf(t, freedom) for t in ts]
    assert [both_tails(sign * t, freedom) for t in ts for sign in (1, -1)] == pytest.approx(
        [p for p in expected for _ in range(2)], rel=1e-12, abs=1e-300
    )
    assert both_tails(0.0, freedom) == 1.0


@pytest.mark.parametrize(("have", "drawn", "having", "total"), [(16, 16, 40, 80), (3, 10, 10, 50), (0, 20, 30, 100)])
def test_the_tails_of_a_draw_are_those_of_scipy(have: int, drawn: int, having: int, total: int) -> None:
    of = stats.hypergeom(total, having, drawn)
    expected = min(1.0, 2 * min(of.sf(have - 1), of.cdf(have)))
    assert draw_p(have, drawn, having, total) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("places", "total"),
    [
        (range(24, 30), 30),
        (range(3), 30),
        (range(15), 30),
        (range(0, 100, 5), 100),
        ([*range(20), *range(60, 80)], 100),
    ],
)
def test_the_p_of_places_is_no_smaller_than_that_of_scipy(places: Sequence[int], total: int) -> None:
    others = sorted({*range(total)} - {*places})
    exact = stats.ks_2samp(places, others, method="exact")
    p = places_p(places, total)
    assert p == pytest.approx(
        min(1.0, 2 * math.exp(-2 * exact.statistic**2 * len(places) * len(others) / total)), rel=1e-9
    )
    assert p >= min(0.1, exact.pvalue)
    assert places_p([total - 1 - place for place in reversed(places)], total) == pytest.approx(p)


@pytest.mark.parametrize(("gained", "lost"), [(0, 1), (1, 1), (3, 3), (2, 9), (9, 2), (400, 500), (2000, 1500)])
def test_mcnemars_test_is_the_binomial_test_of_scipy(gained: int, lost: int) -> None:
    first = [0.0] * gained + [1.0] * lost
    second = [1.0] * gained + [0.0] * lost
    p = mcnemar(first, second)
    assert p == pytest.approx(stats.binomtest(gained, gained + lost).pvalue, rel=1e-9)
    assert p is not None
    assert math.isfinite(p)
