"""What cascades reach at which cost, on questions that nothing about them was fitted on.

Cross-fitted: the questions are split into five parts; for each part, everything that is chosen (which two programs, the
rule and its weights, the threshold) is chosen on the other four. So every question counts as a test question once.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from experiments.analysis.statistics import mean_of, paired
from experiments.papers.cascade_runs import Recorded, as_samples
from optimizers.cascade.fitting import SHARES, Sample, fit, replayed, threshold_for, threshold_of_share

PARTS = 5
REPEATS = 3
SEED = 0


class Pair(NamedTuple):
    """The programs of a cascade, by label, and whether it decides before one of them is asked."""

    cheap: str
    dear: str
    before: bool = False

    def __str__(self) -> str:
        return f"{self.cheap} | {self.dear}" if self.before else f"{self.cheap} -> {self.dear}"


@dataclass(frozen=True)
class Outcomes:
    """Score and cost of each question, in order.

    Args:
        scores: F1.
        costs: Tokens.
        asked: Share of the questions that went to a dear program.
    """

    scores: list[float]
    costs: list[float]
    asked: float = 0.0

    @property
    def score(self) -> float:
        """The mean score."""
        return float(np.mean(self.scores))

    @property
    def cost(self) -> float:
        """The mean cost."""
        return float(np.mean(self.costs))

    def as_dict(self) -> dict[str, Any]:
        """Return the means as JSON."""
        return {"f1": mean_of(self.scores).as_dict(), "tokens": mean_of(self.costs).as_dict(), "asked": self.asked}


class Programs:
    """What every program makes of the same questions.

    Args:
        recorded: Label -> the rows.
    """

    def __init__(self, recorded: Mapping[str, Recorded]):
        self.recorded = dict(recorded)
        common = set.intersection(*(set(each.rows) for each in recorded.values()))
        self.ids = sorted(common)
        self.single = {
            label: Outcomes([each.score(id) for id in self.ids], [each.cost(id) for id in self.ids])
            for label, each in recorded.items()
        }
        cost = {label: outcome.cost for label, outcome in self.single.items()}
        self.pairs = [
            Pair(cheap, dear, before)
            for cheap, dear in permutations(recorded, 2)
            for before in (False, True)
            if cost[cheap] < cost[dear] and (before or recorded[cheap].shown is not None)
        ]
        self.fits: dict[tuple[int, ...], str] = {}  # see `within`
        self.samples = {
            pair: as_samples(recorded[pair.cheap], recorded[pair.dear], self.ids, before=pair.before)
            for pair in self.pairs
        }

    @property
    def best(self) -> str:
        """The single program with the highest score; of equals, the cheapest."""
        return max(self.single, key=lambda label: (self.single[label].score, -self.single[label].cost))

    def best_within(self, cost: float) -> str:
        """Return the best single program that costs no more than this; the cheapest of all if there is none."""
        affordable = [label for label, outcome in self.single.items() if outcome.cost <= cost + 1e-9]
        if not affordable:
            return min(self.single, key=lambda label: self.single[label].cost)
        return max(affordable, key=lambda label: self.single[label].score)


def parts(n: int, seed: int = SEED) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the places to choose on, and those to test, of each part."""
    order = list(range(n))
    random.Random(seed).shuffle(order)
    for number in range(PARTS):
        test = order[number::PARTS]
        yield sorted(set(order) - set(test)), sorted(test)


_Choice = Callable[[list[Sample]], tuple[str, float]]  # training samples -> weights and threshold


def crossed(samples: Sequence[Sample], choose: _Choice, seed: int = SEED) -> Outcomes:
    """Return what a cascade does on every question with what was chosen on the other parts."""
    scores, costs, asked = [0.0] * len(samples), [0.0] * len(samples), 0
    for train, test in parts(len(samples), seed):
        weights, threshold = choose([samples[place] for place in train])
        done = replayed([samples[place] for place in test], weights, threshold)
        asked += sum(done.asked)
        for place, score, cost in zip(test, done.scores, done.costs, strict=True):
            scores[place], costs[place] = score, cost
    return Outcomes(scores, costs, asked / len(samples))


def at_share(share: float, rules: Sequence[str] | None = None) -> _Choice:
    """Return the choice that sends a share of the training questions to the dear program."""

    def choose(train: list[Sample]) -> tuple[str, float]:
        weights = fit(train, rules=rules).weights
        return weights, threshold_of_share(train, weights, share)

    return choose


def within(cost: float, fits: dict[tuple[int, ...], str] | None = None) -> _Choice:
    """Return the choice with the best training score at no more than a mean cost.

    Args:
        cost: The limit.
        fits: Weights that were fitted before, by the identities of the samples; they do not depend on the limit.
    """
    known = {} if fits is None else fits

    def choose(train: list[Sample]) -> tuple[str, float]:
        key = tuple(map(id, train))
        if key not in known:
            known[key] = fit(train).weights
        return known[key], threshold_for(train, known[key], most_cost=cost)

    return choose


def routed(programs: Programs, pair: Pair, cost: float) -> Outcomes:
    """Return the expectation of asking one of two programs at random, at a mean cost between theirs.

    It is a harder reference than a cascade that asks at random: a question that goes to the dear program costs nothing
    else.
    """
    cheap, dear = programs.single[pair.cheap], programs.single[pair.dear]
    share = min(1.0, max(0.0, (cost - cheap.cost) / (dear.cost - cheap.cost)))
    return Outcomes(_mixed(cheap.scores, dear.scores, share), _mixed(cheap.costs, dear.costs, share), share)


def best_mixture(programs: Programs, cost: float) -> tuple[str, Outcomes]:
    """Return the best single program or random mixture of two at a mean cost, chosen with hindsight."""
    label = programs.best_within(cost)
    found: tuple[str, Outcomes] = (label, programs.single[label])
    for pair in programs.pairs:
        if programs.single[pair.cheap].cost <= cost <= programs.single[pair.dear].cost:
            mixed = routed(programs, pair, cost)
            if mixed.score > found[1].score + 1e-12:
                found = (f"{pair.cheap} or {pair.dear}", mixed)
    return found


def oracle(programs: Programs, pair: Pair) -> Outcomes:
    """Return what a cascade would do that asks the dear program exactly where it scores higher."""
    samples = programs.samples[pair]
    gains = [sample.dear > sample.cheap for sample in samples]
    both = list(zip(samples, gains, strict=True))
    return Outcomes(
        [sample.dear if gain else sample.cheap for sample, gain in both],
        [sample.cheap_cost + (sample.dear_cost if gain else 0.0) for sample, gain in both],
        sum(gains) / len(gains),
    )


class Chosen(NamedTuple):
    """A cascade whose programs were chosen, too: what it does, and which programs each part chose."""

    outcomes: Outcomes
    pairs: list[str]


def chosen_within(programs: Programs, cost: float) -> Chosen:
    """Return the cascade, or single program, that the training questions prefer at no more than a mean cost.

    Candidates are compared on the training questions by `crossed`, so that none gains by having fitted them. Scores and
    costs are means over `REPEATS` ways to split the questions.
    """
    done = [_chosen_once(programs, cost, seed) for seed in range(REPEATS)]
    outcomes = [each.outcomes for each in done]
    return Chosen(
        Outcomes(
            np.mean([each.scores for each in outcomes], axis=0).tolist(),
            np.mean([each.costs for each in outcomes], axis=0).tolist(),
            float(np.mean([each.asked for each in outcomes])),
        ),
        [name for each in done for name in each.pairs],
    )


def _chosen_once(programs: Programs, cost: float, seed: int) -> Chosen:
    n = len(programs.ids)
    scores, costs, asked, names = [0.0] * n, [0.0] * n, 0.0, []
    for train, test in parts(n, seed):
        pair = _preferred(programs, train, cost)
        names.append(str(pair))
        if isinstance(pair, str):
            single = programs.single[pair]
            done = Outcomes([single.scores[place] for place in test], [single.costs[place] for place in test])
        else:
            samples = programs.samples[pair]
            weights, threshold = within(cost, programs.fits)([samples[place] for place in train])
            found = replayed([samples[place] for place in test], weights, threshold)
            done = Outcomes(found.scores, found.costs, sum(found.asked) / len(test))
        asked += done.asked * len(test) / n
        for place, score, spent in zip(test, done.scores, done.costs, strict=True):
            scores[place], costs[place] = score, spent
    return Chosen(Outcomes(scores, costs, asked), names)


def _preferred(programs: Programs, train: Sequence[int], cost: float) -> Pair | str:
    """Return the pair that the training questions prefer, or the best single program within the cost.

    A cascade must be ahead by one standard error of the paired difference: with a few hundred questions the best of
    many pairs is ahead of a single program by chance.
    """

    def of(values: Sequence[float]) -> list[float]:
        return [values[place] for place in train]

    affordable = [label for label, outcome in programs.single.items() if np.mean(of(outcome.costs)) <= cost]
    cheapest = min(programs.single, key=lambda label: programs.single[label].cost)
    single = max(affordable or [cheapest], key=lambda label: float(np.mean(of(programs.single[label].scores))))
    crossed_scores = {
        pair: crossed(
            [programs.samples[pair][place] for place in train], within(cost, programs.fits), seed=SEED + REPEATS
        ).scores
        for pair in programs.pairs
        if np.mean(of(programs.single[pair.cheap].costs)) < cost
    }
    if not crossed_scores:
        return single
    pair = max(crossed_scores, key=lambda each: float(np.mean(crossed_scores[each])))
    ahead = np.array(crossed_scores[pair]) - np.array(of(programs.single[single].scores))
    error = float(ahead.std(ddof=1)) / len(ahead) ** 0.5
    return pair if float(ahead.mean()) > error else single


def compared(reference: Outcomes, cascade: Outcomes) -> dict[str, Any]:
    """Return the paired difference in score, cascade minus reference, and the ratio of the costs."""
    return {**paired(reference.scores, cascade.scores).as_dict(), "cost_ratio": cascade.cost / reference.cost}


def _mixed(first: Sequence[float], second: Sequence[float], share: float) -> list[float]:
    return [(1 - share) * one + share * other for one, other in zip(first, second, strict=True)]


def curve(programs: Programs, pair: Pair) -> list[dict[str, Any]]:
    """Return a cascade at several shares, each with what random routing reaches at its cost."""
    found = []
    for share in SHARES:
        done = crossed(programs.samples[pair], at_share(share))
        routed_f1 = routed(programs, pair, done.cost).score
        found.append(
            {"share": share, "f1": done.score, "tokens": done.cost, "asked": done.asked, "routed_f1": routed_f1}
        )
    return found
