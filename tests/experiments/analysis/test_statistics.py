import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.analysis.statistics import (
    bootstrap_intervals,
    mcnemar,
    mean_of,
    of_means,
    paired,
    too_small,
)
from optimizers.metrics.keyfact_scores import harmonic_mean

SCORES = st.lists(st.floats(0, 1), min_size=2, max_size=30)
BINARY = st.lists(st.tuples(st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 1.0])), min_size=1, max_size=30)


def test_undefined_values_are_left_out_and_counted() -> None:
    mean = mean_of([1.0, None, 0.0, None])
    assert (mean.mean, mean.n, mean.undefined) == (0.5, 2, 2)


def test_no_value_at_all_gives_no_mean() -> None:
    assert mean_of([None]).mean is None
    assert mean_of([]).n == 0
    assert mean_of([0.5]).low is None


@given(values=SCORES)
def test_the_interval_holds_the_mean_and_stays_within_the_values(values: list[float]) -> None:
    mean = mean_of(values, resamples=200)
    assert mean.mean is not None
    assert mean.low is not None
    assert mean.high is not None
    slack = 1e-9
    assert min(values) - slack <= mean.low <= mean.high <= max(values) + slack
    assert min(values) - slack <= mean.mean <= max(values) + slack


def test_the_same_seed_draws_the_same_interval() -> None:
    values = [0.0, 0.3, 1.0, 0.7, 0.2]
    assert bootstrap_intervals([values], seed=3) == bootstrap_intervals([values], seed=3)
    assert bootstrap_intervals([values], seed=3) != bootstrap_intervals([values], seed=4)


def test_the_interval_of_a_large_sample_is_the_normal_one() -> None:
    ((low, high),) = bootstrap_intervals([[0.0, 1.0] * 500], resamples=4000)
    half = 1.96 * 0.5 / math.sqrt(1000)
    assert low == pytest.approx(0.5 - half, abs=0.004)
    assert high == pytest.approx(0.5 + half, abs=0.004)


def test_identical_runs_give_p_one_not_nan() -> None:
    result = paired([0.1, 0.5, 0.9], [0.1, 0.5, 0.9])
    assert (result.p, result.identical, result.test, result.difference) == (1.0, True, "identical", 0.0)


def test_the_t_test_agrees_with_a_value_worked_by_hand() -> None:
    # Differences 1, 2, 3: t = 2 / (1 / sqrt(3)) = 3.4641 with 2 degrees of freedom, p = 0.0742.
    assert paired([0.0, 0.0, 0.0], [1.0, 2.0, 3.0]).p_t_test == pytest.approx(0.0742, abs=1e-4)


def test_a_constant_gain_is_as_certain_as_equal_signs_and_warns_nobody(recwarn: pytest.WarningsRecorder) -> None:
    assert paired([0.0, 0.25], [0.5, 0.75]).p == 0.5
    rounded = paired([0.1, 0.4, 0.2], [0.4, 0.7, 0.5])
    assert (rounded.p, rounded.test) == (0.25, "sign-flip test")
    assert paired([0.0] * 9, [1.0] * 9).p_t_test == mcnemar([0.0] * 9, [1.0] * 9) == 0.5**8
    assert not recwarn.list


def test_equal_differences_say_nothing_of_power() -> None:
    for size in (0.5, 1.0):
        compared = paired([0.0] * 9, [size] * 9)
        assert (compared.detectable, compared.questions_needed) == (None, None)


def test_mcnemar_is_the_binomial_test_over_differing_pairs() -> None:
    first, second = [0.0] * 6 + [1.0] * 4, [1.0] * 6 + [1.0] * 4
    assert mcnemar(first, second) == pytest.approx(2 * 0.5**6)
    assert mcnemar([0.0, 0.5], [1.0, 1.0]) is None
    assert paired(first, second).test == "McNemar"
    assert paired([0.2, 0.4, 0.1], [0.3, 0.4, 0.9]).test == "t-test"


def test_a_pair_counts_only_where_both_are_defined() -> None:
    result = paired([1.0, None, 0.5, 0.0], [0.5, 1.0, None, 0.25])
    assert result.n == 2
    assert result.difference == pytest.approx(-0.125)


def test_too_few_questions_are_said_to_be_too_few() -> None:
    assert "n = 12 is too small" in (too_small(12) or "")
    assert too_small(100) is None
    few = paired([0.0] * 40, [1.0] * 5 + [0.0] * 35)
    assert few.notice == "Only 5 of 40 questions differ: no test can reach p < 0.05."
    assert few.p == pytest.approx(0.0625)
    assert paired([None], [1.0]).notice == "No question has a value in both runs."


def test_a_difference_is_found_as_often_as_its_power_says() -> None:
    """Drawn questions whose true difference is the detectable one, or which are as many as are needed."""
    import numpy as np

    generator = np.random.default_rng(0)
    first, second = generator.normal(0.0, 1.0, 200), generator.normal(0.3, 1.0, 200)
    compared = paired(first.tolist(), second.tolist(), resamples=10)  # 431 questions are needed
    differences = second - first
    assert compared.detectable is not None
    assert compared.questions_needed is not None
    assert compared.difference is not None
    for questions, true in ((200, compared.detectable), (compared.questions_needed, compared.difference)):
        drawn = generator.normal(true, differences.std(ddof=1), (4000, questions))
        ratios = drawn.mean(axis=1) / (drawn.std(axis=1, ddof=1) / math.sqrt(questions))
        assert np.mean(np.abs(ratios) > 1.96) == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize(("won", "lost", "same"), [(8, 0, 42), (8, 5, 87), (30, 20, 450)])
def test_a_difference_of_0_and_1_is_found_as_often_as_its_power_says(won: int, lost: int, same: int) -> None:
    """Questions won and lost by chance, compared by the exact test."""
    import numpy as np

    compared = paired([0.0] * won + [1.0] * lost + [1.0] * same, [1.0] * won + [0.0] * lost + [1.0] * same)
    assert compared.detectable is not None
    assert compared.questions_needed is not None
    assert compared.difference is not None
    generator, differing = np.random.default_rng(0), (won + lost) / (won + lost + same)
    for questions, true in ((compared.n, compared.detectable), (compared.questions_needed, compared.difference)):
        share = max(differing, true)  # of the questions, which differ
        sides = [(share + true) / 2, (share - true) / 2, 1 - share]
        drawn = generator.multinomial(questions, sides, 1000)[:, :2].tolist()
        found = sum(mcnemar([0.0] * up + [1.0] * down, [1.0] * up + [0.0] * down) < 0.05 for up, down in drawn)
        assert 0.75 < found / 1000 < 0.9


def test_a_test_that_is_corrected_for_others_finds_less() -> None:
    from experiments.analysis.statistics import means_and_differences

    columns = [[0.0] * 60, [0.5, -0.4] * 30]
    one, ten = (means_and_differences(columns, [(0, 1)], tests=tests)[1][0].detectable for tests in (1, 10))
    assert one is not None
    assert ten == pytest.approx(one * (2.807034 + 0.841621) / (1.959964 + 0.841621))


def test_no_number_of_questions_shows_a_difference_of_zero() -> None:
    none = paired([2 / 3, 1 / 3] * 20, [0.5] * 40)
    assert none.difference != 0.0  # by rounding alone
    assert none.questions_needed is None
    assert none.detectable == pytest.approx(0.0747, abs=1e-4)
    assert paired([1.0, 0.0] * 4, [0.0, 1.0] * 4).questions_needed is None


def test_too_few_questions_that_differ_say_nothing_of_what_could_be_found() -> None:
    assert paired([0.0] * 6, [1.0] * 5 + [0.0]).detectable is None
    assert paired([0.0] * 100, [1.0] * 7 + [0.0] * 93).questions_needed is None
    assert paired([0.0] * 100, [1.0] * 8 + [0.0] * 92).questions_needed is not None


def test_lists_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="argument 2"):
        paired([1.0], [])


@given(pairs=BINARY)
def test_swapping_the_runs_turns_the_difference_and_keeps_p(pairs: list[tuple[float, float]]) -> None:
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    forth, back = paired(first, second, resamples=100), paired(second, first, resamples=100)
    assert forth.difference == pytest.approx(-(back.difference or 0.0))
    assert forth.p == pytest.approx(back.p)
    assert forth.p is not None
    assert 0.0 <= forth.p <= 1.0


def test_a_number_of_means_has_the_interval_of_questions_drawn_together() -> None:
    f1 = of_means([[0.2, 0.8, None] * 20, [1.0, 1.0, 0.0] * 20], harmonic_mean)
    assert (f1.mean, f1.n, f1.undefined) == (pytest.approx(2 / 3), 40, 20)  # of .5 and 1, and no mean of F1
    assert f1.low is not None
    assert f1.high is not None
    assert 0.55 < f1.low < 2 / 3 < f1.high < 0.8
    alone = of_means([[0.2, 0.8] * 20], float)
    assert alone == mean_of([0.2, 0.8] * 20)
    assert of_means([[None]], float) == mean_of([None])
    assert of_means([[0.5], [0.5]], harmonic_mean).low is None


def test_holm_corrects_the_smallest_most_and_keeps_the_order() -> None:
    from experiments.analysis.statistics import holm

    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([None, 0.5, 0.02]) == [None, 0.5, 0.04]
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([0.03]) == [0.03]
    assert holm([]) == []
