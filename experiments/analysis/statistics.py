"""Means, percentile bootstrap intervals and paired tests over per-question values.

There is one value per question, None if its score is undefined; undefined values are excluded and counted. Columns of
one length share their draws: a resample is how often it draws each question, and these counts times the values of all
columns are the sums of all resamples in one matrix product.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RESAMPLES = 2000
LEVEL = 0.95
_ENDS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
_BLOCK = 2_000_000  # numbers drawn at once: bounds memory at about 50 MB


def bootstrap_intervals(
    columns: Sequence[Sequence[float]], *, resamples: int = RESAMPLES, seed: int = 0
) -> list[tuple[float, float]]:
    """Return the interval of the mean of each column; it does not depend on the other columns.

    Args:
        columns: At least one value each; lengths may differ.
        resamples: Number of draws.
        seed: Seed of the draws; each length starts from it anew.
    """
    import numpy as np

    places: dict[int, list[int]] = {}
    for place, column in enumerate(columns):
        places.setdefault(len(column), []).append(place)
    intervals: dict[int, tuple[float, float]] = {}
    for members in places.values():
        means = _resampled([columns[place] for place in members], resamples, seed)
        lows, highs = np.quantile(means, _ENDS, axis=0)
        intervals |= zip(members, zip(lows.tolist(), highs.tolist(), strict=True), strict=True)
    return [intervals[place] for place in range(len(columns))]


def _resampled(columns: Sequence[Sequence[float]], resamples: int, seed: int) -> "NDArray[np.float64]":
    """Return the means of columns of one length in each resample, a column for each."""
    import numpy as np

    data, length = np.array(columns, dtype=float).T, len(columns[0])
    means = np.empty((resamples, len(columns)))
    generator = np.random.default_rng(seed)
    block = max(1, _BLOCK // length)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        draws = generator.integers(0, length, size=(rows, length))
        draws += length * np.arange(rows)[:, None]  # a bin of its own for each question of each resample
        counts = np.bincount(draws.ravel(), minlength=rows * length).reshape(rows, length)
        means[start : start + rows] = counts.astype(float) @ data / length
    return means


POWER = 0.8
FEWEST = 8  # questions that differ: with fewer the spread is a guess, and McNemar's test finds too few differences
_ROUNDING = 1e-9  # up to which differences are none
SMALL = 30  # below this many questions a percentile interval is visibly too narrow
_Values = Sequence[float | None]
_Interval = tuple[float | None, float | None]


@dataclass(frozen=True)
class Mean:
    """The mean of a score over questions.

    Args:
        mean: None if no value is defined.
        low: Lower end of the 95 % bootstrap interval; None for fewer than 2 values.
        high: Upper end.
        n: Questions with a value.
        undefined: Questions without a value, excluded from the mean.
        unparsed: Unparseable texts or verdicts; they score as wrong answers.
        abstained: Scored answers that are abstentions; they are scored like any other text.
        missing: Questions without a row.
    """

    mean: float | None
    low: float | None
    high: float | None
    n: int
    undefined: int
    unparsed: int = 0
    abstained: int = 0
    missing: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Paired:
    """The difference of two runs on the same questions, second minus first.

    Args:
        difference: Mean difference; None if no question has both values.
        low: Lower end of the 95 % interval of the paired bootstrap; None for fewer than 2 questions.
        high: Upper end.
        p_t_test: Two-tailed paired t-test; where all differences are equal, so that t is not defined, the exact test
            over their signs; None for fewer than 2 questions.
        p_mcnemar: Exact McNemar test if all values are 0 or 1, else None.
        identical: Whether both runs have the same value on every question.
        n: Questions with both values.
        notice: Why the numbers are unreliable; None if they are not.
        detectable: The smallest true difference that a two-sided test at 5 %, over the number of tests that p-values
            are corrected for, on as many questions finds with a probability of `POWER`, as their differences spread
            (Card et al., "With Little Power Comes Great Responsibility", EMNLP 2020,
            https://arxiv.org/abs/2010.06595); None if fewer than `FEWEST` questions differ, or all equally.
        questions_needed: Questions on which a difference as large as this one would be found with a probability of
            `POWER`; None for no difference, and as for `detectable`.
        constant: Whether all differences are equal, but for rounding.
    """

    difference: float | None
    low: float | None
    high: float | None
    p_t_test: float | None
    p_mcnemar: float | None
    identical: bool
    n: int
    notice: str | None
    detectable: float | None = None
    questions_needed: int | None = None
    constant: bool = False

    @property
    def p(self) -> float | None:
        """The p-value of McNemar's test for 0/1 values, else `p_t_test`."""
        return self.p_t_test if self.p_mcnemar is None else self.p_mcnemar

    @property
    def test(self) -> str | None:
        """The name of the test behind `p`."""
        if self.p is None:
            return None
        if self.identical:
            return "identical"
        return "McNemar" if self.p_mcnemar is not None else "sign-flip test" if self.constant else "t-test"

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {**asdict(self), "p": self.p, "test": self.test}


def mean_of(values: _Values, *, resamples: int = RESAMPLES, seed: int = 0) -> Mean:
    """Return the mean of the defined values with its interval, n and the count of undefined ones."""
    return means_and_differences([values], resamples=resamples, seed=seed)[0][0]


def means_of(columns: Sequence[_Values]) -> list[Mean]:
    """Return the mean of each column as `mean_of` does, in much less time."""
    return means_and_differences(columns)[0]


def of_means(parts: Sequence[_Values], of: Callable[..., float]) -> Mean:
    """Return a number of the means of several values of each question, such as an F1, with its interval.

    Args:
        parts: The values; a question that lacks one counts as undefined.
        of: Takes the means in this order.
    """
    import numpy as np

    rows = [values for values in zip(*parts, strict=True) if None not in values]
    undefined = len(parts[0]) - len(rows)
    if not rows:
        return Mean(None, None, None, 0, undefined)
    columns = [[float(value or 0) for value in own] for own in zip(*rows, strict=True)]
    ends: _Interval = (None, None)
    if len(rows) > 1:
        low, high = np.quantile(resampled([columns], of), _ENDS)
        ends = (float(low), float(high))
    return Mean(of(*(math.fsum(own) / len(own) for own in columns)), *ends, len(rows), undefined)


def resampled(
    systems: Sequence[Sequence[Sequence[float]]], of: Callable[..., float], resamples: int = RESAMPLES
) -> "NDArray[np.float64]":
    """Return a number of each system in each resample of the questions that all of them answered.

    Args:
        systems: The values of each that `of` takes the means of, all over the same questions.
        of: See `of_means`.
        resamples: Number of draws.

    Returns:
        A row for each resample, a column for each system.
    """
    import numpy as np

    means = _resampled([part for parts in systems for part in parts], resamples, 0)
    return np.array([[of(*parts) for parts in row.reshape(len(systems), -1)] for row in means])


def mean_of_means(columns: Sequence[_Values], samples: Sequence[Hashable] | None = None) -> Mean | None:
    """Return the mean of the means of columns, each of different questions drawn on their own; None if one is empty.

    All columns count alike, however many questions they have.

    Args:
        columns: Values of each.
        samples: What each column is of; those of one sample are drawn together and count once in `n`. By default all
            are of different ones.
    """
    import numpy as np

    defined = [[float(value) for value in values if value is not None] for values in columns]
    if not all(defined):
        return None
    mean = math.fsum(math.fsum(own) / len(own) for own in defined) / len(defined)
    samples = range(len(columns)) if samples is None else samples
    seeds = {sample: seed for seed, sample in enumerate(dict.fromkeys(samples))}
    ends: _Interval = (None, None)
    if min(map(len, defined)) > 1:
        drawn = [_resampled([own], RESAMPLES, seeds[of]) for own, of in zip(defined, samples, strict=True)]
        low, high = np.quantile(np.mean(drawn, axis=0), _ENDS)
        ends = (float(low), float(high))
    n, asked = (sum(map(len, dict(zip(samples, of, strict=True)).values())) for of in (defined, columns))
    return Mean(mean, *ends, n, asked - n)


def means_and_differences(
    columns: Sequence[_Values],
    pairs: Sequence[tuple[int, int]] = (),
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    tests: int = 1,
) -> tuple[list[Mean], list[Paired]]:
    """Return `mean_of` each column and `paired` of each pair of columns; they share the draws of the bootstrap.

    Args:
        columns: Values of one score of one run each, one per question.
        pairs: Places of the reference and of the other column, over the same questions.
        resamples: Draws of the bootstrap.
        seed: Seed of the draws.
        tests: How many the p-values are corrected for.

    Raises:
        ValueError: The columns of a pair differ in length.
    """
    defined = [[float(value) for value in values if value is not None] for values in columns]
    both = [_both_defined(columns[first], columns[second]) for first, second in pairs]
    differences = [[b - a for a, b in zip(old, new, strict=True)] for old, new in both]
    sampled = [*defined, *differences]
    wide = [place for place, values in enumerate(sampled) if len(values) > 1]
    found = bootstrap_intervals([sampled[place] for place in wide], resamples=resamples, seed=seed)
    intervals: dict[int, _Interval] = dict(zip(wide, found, strict=True))
    spreads = [intervals.get(place, (None, None)) for place in range(len(sampled))]
    means = [
        _mean(own, len(values) - len(own), spread)
        for own, values, spread in zip(defined, columns, spreads, strict=False)
    ]
    compared = zip(both, differences, spreads[len(columns) :], strict=True)
    return means, [_paired(*of, own, spread, tests) for of, own, spread in compared]


def _both_defined(first: _Values, second: _Values) -> tuple[list[float], list[float]]:
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    return [float(a) for a, _ in pairs], [float(b) for _, b in pairs]


def _mean(defined: Sequence[float], undefined: int, spread: _Interval) -> Mean:
    mean = math.fsum(defined) / len(defined) if defined else None
    return Mean(mean, *spread, len(defined), undefined)


def _t_test(differences: Sequence[float], error: float) -> float:
    """Return the two-tailed p of a paired t-test; of a sign-flip test where all differences are equal.

    An estimated variance of 0 says nothing about chance: two questions that differ alike would be certain. If signs
    are as likely as their opposites, 2 of the 2^n ways to set them are as extreme as all alike (Fisher, "The Design of
    Experiments", 1935, section 21). For differences of 1 this is McNemar's exact test.
    """
    if _constant(differences):
        return 2.0 ** (1 - len(differences)) if abs(differences[0]) > _ROUNDING else 1.0
    return both_tails(math.fsum(differences) / len(differences) / error, len(differences) - 1)


def _constant(differences: Sequence[float]) -> bool:
    """Return whether these differences are equal; subtracting 0.1 from 0.4 and 0.4 from 0.7 rounds otherwise."""
    return bool(differences) and math.isclose(min(differences), max(differences), abs_tol=_ROUNDING)


def _standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean of two or more values."""
    import numpy as np

    return math.sqrt(float(np.var(values, ddof=1)) / len(values))


def both_tails(t: float, freedom: int) -> float:
    """Return the chance that a value of Student's t distribution is as far from 0 as `t`, to 12 digits.

    It is the regularised incomplete beta function of freedom / (freedom + t^2) at (freedom / 2, 1 / 2). Base
    dependencies have none, and scipy takes 143 MB. https://dlmf.nist.gov/8.17

    Args:
        freedom: Degrees of freedom, at least 1.
    """
    gammas = 1 / math.sqrt(math.pi)  # of (freedom + 1) / 2 over that of freedom / 2; two neighbours' product is known
    for degrees in range(1, freedom):
        gammas = degrees / 2 / gammas
    share = t * t / (freedom + t * t)
    front = math.exp(-freedom / 2 * math.log1p(t * t / freedom)) * math.sqrt(share) * gammas / math.sqrt(math.pi)
    if share > 1.5 / (freedom / 2 + 2.5):
        return front / (freedom / 2) * _beta_fraction(freedom / 2, 0.5, 1 - share)
    return 1 - 2 * front * _beta_fraction(0.5, freedom / 2, share)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function (8.17.22), from its end, where it is 1."""
    value = 1.0
    for place in range(100 + 10 * math.isqrt(int(a + b)), 0, -1):
        half = place // 2
        top = -(a + half) * (a + b + half) if place % 2 else half * (b - half)
        value = 1 + top * x / ((a + place - 1) * (a + place)) / value
    return 1 / value


def mcnemar(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the exact two-sided p of McNemar's test (binomial over differing pairs); None unless all are 0 or 1."""
    if len(first) != len(second):
        raise ValueError(f"A paired test needs equally many values on both sides, got {len(first)} and {len(second)}.")
    if not first or not {*first, *second} <= {0.0, 1.0}:
        return None
    gained = sum(new > old for old, new in zip(first, second, strict=True))
    lost = sum(new < old for old, new in zip(first, second, strict=True))
    if not gained + lost:
        return 1.0
    # The binomial distribution of fair coins is symmetric; the middle belongs to both tails.
    return min(1.0, 2 * fair_coins(min(gained, lost), gained + lost))


def fair_coins(heads: int, tossed: int) -> float:
    """Return the chance of at most so many heads among coins that are tossed, which is rounded once."""
    ways = total = 1
    for head in range(1, heads + 1):
        ways = ways * (tossed - head + 1) // head
        total += ways
    return total / 2**tossed


def draw_p(have: int, drawn: int, having: int, total: int) -> float:
    """Return the two-sided p of how many of those drawn have a property, by the hypergeometric distribution.

    Args:
        have: Of those drawn, with the property.
        drawn: Of all, by chance.
        having: Of all, with the property.
        total: Their number.
    """
    if have * total < having * drawn:  # few with it are many without it
        have, having = drawn - have, total - having
    all_ways = _log_ways(drawn, total)
    tail = (
        math.exp(_log_ways(each, having) + _log_ways(drawn - each, total - having) - all_ways)
        for each in range(have, min(drawn, having) + 1)
    )
    return min(1.0, 2 * math.fsum(tail))


def places_p(places: Sequence[int], total: int) -> float:
    """Return the p of where those with a property stand in an order, by the two-sample Kolmogorov-Smirnov test.

    It is the first term of the series of Smirnov (Annals of Mathematical Statistics 19, 1948), larger than the exact p
    where it matters, below 0.1.

    Args:
        places: Of those with the property, ascending, from 0; at least one, and fewer than all.
        total: Number of places.
    """
    have, rest = len(places), total - len(places)
    gaps = ((each / have, (place - each) / rest, (each + 1) / have) for each, place in enumerate(places))
    most = max(max(abs(before - others), abs(after - others)) for before, others, after in gaps)
    return min(1.0, 2 * math.exp(-2 * most**2 * have * rest / total))


def _log_ways(chosen: int, of: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(chosen + 1) - math.lgamma(of - chosen + 1)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values adjusted for several tests by Holm's step-down method; None stays None and is no test.

    The chance that any true null hypothesis is rejected is then at most the level (Holm, Scandinavian Journal of
    Statistics, 1979, https://www.jstor.org/stable/4615733).
    """
    tests = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for done, (p, place) in enumerate(tests):
        highest = max(highest, min(1.0, (len(tests) - done) * p))
        adjusted[place] = highest
    return adjusted


def too_small(n: int) -> str | None:
    """Return a warning if `n` questions are too few, else None."""
    return f"n = {n} is too small: read intervals and p-values as rough." if n < SMALL else None


def _notice(first: Sequence[float], second: Sequence[float], binary: bool) -> str | None:
    if not first:
        return "No question has a value in both runs."
    differing = sum(old != new for old, new in zip(first, second, strict=True))
    # The exact test over 5 differing pairs reaches 2 * 0.5**5 = 0.0625 at best.
    if binary and 0 < differing < 6:
        return f"Only {differing} of {len(first)} questions differ: no test can reach p < 0.05."
    return too_small(len(first))


def paired(first: _Values, second: _Values, *, resamples: int = RESAMPLES, seed: int = 0) -> Paired:
    """Compare two runs question by question.

    Args:
        first: Values of the reference run, one per question.
        second: Values of the other run, the same questions in the same order.
        resamples: Draws of the paired bootstrap.
        seed: Seed of the draws.

    Raises:
        ValueError: The lists differ in length.
    """
    return means_and_differences([first, second], [(0, 1)], resamples=resamples, seed=seed)[1][0]


def _paired(
    old: Sequence[float], new: Sequence[float], differences: Sequence[float], spread: _Interval, tests: int
) -> Paired:
    p_mcnemar = mcnemar(old, new)
    error = _standard_error(differences) if len(old) > 1 else 0.0
    detectable, needed = _power(differences, error, p_mcnemar is not None, tests)
    return Paired(
        difference=math.fsum(differences) / len(old) if old else None,
        low=spread[0],
        high=spread[1],
        p_t_test=_t_test(differences, error) if len(old) > 1 else None,
        p_mcnemar=p_mcnemar,
        identical=bool(old) and old == new,
        n=len(old),
        notice=_notice(old, new, p_mcnemar is not None),
        detectable=detectable,
        questions_needed=needed,
        constant=_constant(differences),
    )


def _power(differences: Sequence[float], error: float, binary: bool, tests: int) -> tuple[float | None, int | None]:
    """Return the difference that is found with a probability of `POWER`, and the questions that find this one so."""
    if sum(map(bool, differences)) < FEWEST or _constant(differences):
        return None, None
    quantiles = NormalDist().inv_cdf(1 - (1 - LEVEL) / 2 / tests) + NormalDist().inv_cdf(POWER)
    # The exact test of 0/1 scores finds less than the normal distribution says, by about one question.
    n, size, step = len(differences), abs(math.fsum(differences)) / len(differences), 1.0 if binary else 0.0
    needed = None if size < _ROUNDING else math.ceil(n * (quantiles * error / size) ** 2 + step / size)
    return quantiles * error + step / n, needed
