"""Coefficients against worked examples and against their definitions."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from experiments.analysis.agreement import cohen_kappa, fleiss_kappa, kendall, kendall_interval, pearson
from experiments.analysis.statistics import resampled

YES_NO = ("no", "yes")


def test_cohen_kappa_by_hand():
    # 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: agreement 0.7, by chance 0.5*0.6 + 0.5*0.4 = 0.5, kappa 0.4.
    first = ["yes"] * 25 + ["no"] * 25
    second = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    found = cohen_kappa(first, second, YES_NO)
    assert found.value == pytest.approx(0.4)
    assert found.n == 50


def test_weights_forgive_a_near_grade():
    grades = ("0", "0.5", "1")
    first, near, far = ["0", "0.5", "1", "1"], ["0", "0.5", "1", "0.5"], ["0", "0.5", "1", "0"]
    assert cohen_kappa(first, near, grades, weighted=True).value > cohen_kappa(first, far, grades, weighted=True).value
    # By hand for `near`: 0.5 of the largest difference is seen on one of four items, 0.125 in all; by chance
    # first (1/4, 1/4, 2/4) against second (1/4, 2/4, 1/4) differs by 0.4375 of it.
    assert cohen_kappa(first, near, grades, weighted=True).value == pytest.approx(1 - 0.125 / 0.4375)


def test_fleiss_kappa_of_the_worked_example():
    # Ten subjects, fourteen raters, five categories: the table known from the statistic's textbook treatment.
    # Its marginals give 0.378 observed and 0.213 by chance, hence 0.210.
    table = [
        (0, 0, 0, 0, 14), (0, 2, 6, 4, 2), (0, 0, 3, 5, 6), (0, 3, 9, 2, 0), (2, 2, 8, 1, 1),
        (7, 7, 0, 0, 0), (3, 2, 6, 3, 0), (2, 5, 3, 2, 2), (6, 5, 2, 1, 0), (0, 2, 2, 3, 7),
    ]  # fmt: skip
    found = fleiss_kappa([{str(place): n for place, n in enumerate(row)} for row in table])
    assert found.value == pytest.approx(0.210, abs=0.0005)
    assert found.n == 10


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=30))
def test_fleiss_kappa_of_two_is_scotts_pi(pairs):
    found = fleiss_kappa([Counter(pair) for pair in pairs])
    seen = sum(a == b for a, b in pairs) / len(pairs)
    totals = Counter(grade for pair in pairs for grade in pair)
    chance = sum((n / (2 * len(pairs))) ** 2 for n in totals.values())
    if len(totals) == 1:
        assert found.value is None
    else:
        assert found.value == pytest.approx((seen - chance) / (1 - chance))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), max_size=30))
def test_kappa_is_a_number_or_says_why_not(pairs):
    found = cohen_kappa([a for a, _ in pairs], [b for _, b in pairs], "abc")
    assert (found.value is None) == (found.undefined is not None)
    if found.value is not None:
        assert -1 <= found.value <= 1
        assert found.value == pytest.approx(cohen_kappa([b for _, b in pairs], [a for a, _ in pairs], "abc").value)


def test_kappa_without_variety_or_items_is_undefined_by_name():
    assert cohen_kappa(["yes"] * 5, ["yes"] * 5, YES_NO).undefined == "both raters gave the same grade to every item"
    assert cohen_kappa([], [], YES_NO).undefined == "no item was graded by both raters"
    assert cohen_kappa(["yes"] * 5, ["no"] * 5, YES_NO).value == 0.0
    assert fleiss_kappa([{"yes": 3}] * 4).undefined == "all raters gave the same grade to every item"
    assert fleiss_kappa([]).value is None


def test_tables_that_are_none_are_refused():
    with pytest.raises(ValueError, match=r"got \[2, 3\]"):
        fleiss_kappa([{"yes": 3}, {"yes": 2}])
    with pytest.raises(ValueError, match="at least 2"):
        fleiss_kappa([{"yes": 1}])
    with pytest.raises(ValueError, match="2 and 1"):
        cohen_kappa(["yes", "no"], ["yes"], YES_NO)
    with pytest.raises(ValueError, match="2 and 1"):
        pearson([1, 2], [1])


def test_correlations_by_hand():
    # Deviations (-1.5, -0.5, 0.5, 1.5) and (-1.5, 0.5, -0.5, 1.5): 4 / 5; 5 of 6 pairs in order, one not: 4 / 6.
    assert pearson([1, 2, 3, 4], [1, 3, 2, 4]).value == pytest.approx(0.8)
    assert kendall([1, 2, 3, 4], [1, 3, 2, 4]).value == pytest.approx(4 / 6)
    # With ties tau-b divides by the pairs that are untied on each side: 2 / sqrt(2 * 3).
    assert kendall([0, 0, 1], [1, 2, 3]).value == pytest.approx(2 / math.sqrt(6))


@given(st.lists(st.tuples(st.integers(-3, 3), st.floats(-2, 2, width=16)), min_size=3, max_size=40))
def test_correlations_are_those_of_scipy(pairs):
    first, second = [float(a) for a, _ in pairs], [b for _, b in pairs]
    if len(set(first)) > 1 and len(set(second)) > 1 and pearson(first, second).value is not None:
        assert pearson(first, second).value == pytest.approx(stats.pearsonr(first, second).statistic, abs=1e-12)
        assert kendall(first, second).value == pytest.approx(stats.kendalltau(first, second).statistic, abs=1e-12)


@pytest.mark.parametrize("coefficient", [pearson, kendall])
def test_correlations_without_variety_or_values_are_undefined_by_name(coefficient):
    assert coefficient([1, 1, 1], [1, 2, 3]).undefined == "every rating is the same"
    assert coefficient([1, 2, 3], [0.1 + 0.2, 0.3, 0.3]).undefined == "every metric score is the same"
    assert coefficient([1, 2], [1, 2]).undefined == "needs at least 3 values, got 2"
    assert str(coefficient([], [])) == "undefined: needs at least 3 values, got 0"
    assert str(coefficient([1, 2, 3], [1, 2, 3])) == "1.00"


def drawn(rows):
    return resampled([[own] for own in rows], float, 1000)


def test_the_interval_of_tau_is_narrow_where_every_question_says_the_same_and_wide_where_few_do():
    same = drawn([[0.1] * 50, [0.5] * 50, [0.9] * 50])
    assert kendall_interval(same, [1, 2, 3]) == (1.0, 1.0)
    assert kendall_interval(same, [3, 2, 1]) == (-1.0, -1.0)
    mixed = drawn([[0.0, 1.0] * 4, [1.0, 0.0] * 4, [0.0, 1.0, 1.0, 0.0] * 2])
    low, high = kendall_interval(mixed, [1, 2, 3])
    assert low < 0 < high
    assert kendall_interval(mixed, [1, 2, 3]) == (low, high)  # seeded


def test_there_is_no_interval_of_two_systems_or_without_a_difference():
    assert kendall_interval(drawn([[0.0, 1.0], [1.0, 0.0]]), [1, 2]) is None
    assert kendall_interval(drawn([[0.5, 0.5]] * 3), [1, 2, 3]) is None
