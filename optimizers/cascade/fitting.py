"""Fit the weights and the threshold of a cascade on training questions.

Each training question is answered by both programs once; fitting then costs no LM call. Two rules compete by
cross-validation on these questions: a logistic regression of "the expensive program scores higher", and a linear
regression of how much higher. What counts is the mean score when the doubtful share of the questions, for shares from
10 to 80 %, goes to the expensive program. More rules to choose from, such as single features, cost more than they gain
with a few hundred questions (`experiments/papers/README.md`, "Cascades").
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from optimizers.logistic import FOLDS, Array, Fitter, feature_matrix, folds, linear, logistic
from programs.cascade import asks
from programs.parts.logistic import BIAS, format_weights, score
from programs.parts.run_features import FEATURES
from signatures.common.errors import UserError

PENALTY = 30.0  # of the squared weights of standardised features
RULES: dict[str, Fitter] = {"logistic": logistic(PENALTY), "gain": linear(PENALTY)}
FEWEST = 2 * FOLDS  # training questions
SHARES = tuple(share / 10 for share in range(1, 9))  # of the questions that go to the expensive program


@dataclass(frozen=True)
class CascadeSample:
    """What both programs make of one training question.

    Args:
        id: The question's id.
        features: Of the cheap run, or of the question if it is decided before (`programs.parts.run_features`).
        cheap: Score of the cheap answer, from 0 to 1.
        expensive: Score of the answer that the cascade returns if it asks the expensive program.
        cheap_cost: Of the cheap run, e.g. in tokens.
        expensive_cost: What asking the expensive program adds: its run, less the cheap one if that is then not asked.
    """

    id: str
    features: Mapping[str, float]
    cheap: float
    expensive: float
    cheap_cost: float
    expensive_cost: float


@dataclass(frozen=True)
class Fitted:
    """A rule for a cascade.

    Args:
        rule: Key in `RULES`.
        weights: The knob `weights`.
        validated: Mean gain in score over mixing both programs at random, cross-validated, of each rule.
    """

    rule: str
    weights: str
    validated: Mapping[str, float] = field(default_factory=dict)


def fit(samples: Sequence[CascadeSample]) -> Fitted:
    """Return the rule that cross-validation on the training questions prefers, fitted on all of them.

    Args:
        samples: At least `FEWEST`; no question that is evaluated later may be among them.

    Raises:
        UserError: There are too few questions.
    """
    check_number(len(samples))
    names, x = feature_matrix([sample.features for sample in samples], list(FEATURES))
    gain = np.array([sample.expensive - sample.cheap for sample in samples], dtype=float)
    validated = {name: _validated(x, gain, fitter) for name, fitter in RULES.items()}
    best = max(validated, key=lambda name: validated[name])
    weights = dict(zip((BIAS, *names), map(float, RULES[best](x, gain)), strict=True))
    return Fitted(best, format_weights(weights), validated)


def check_number(number: int, note: str | None = None) -> None:
    """Raise UserError if there are fewer than `FEWEST` training questions; a note says why some were left out."""
    if number < FEWEST:
        left = "" if note is None else f" {note}"
        raise UserError(f"A cascade is fitted on at least {FEWEST} training questions, got {number}.{left}")


def threshold_for(samples: Sequence[CascadeSample], weights: str, *, most_cost: float | None = None) -> float:
    """Return the threshold with the highest mean score on training questions; of equals, that which asks least.

    Args:
        samples: The training questions.
        weights: The fitted knob.
        most_cost: The mean cost at most, in the units of the samples; None for no limit.
    """
    ranked = sorted(((score(sample.features, weights), sample) for sample in samples), key=lambda item: -item[0])
    quality, cost = sum(sample.cheap for sample in samples), sum(sample.cheap_cost for sample in samples)
    most = math.inf if most_cost is None else most_cost * len(samples)
    best = (quality, 1.0)
    for place, (at, sample) in enumerate(ranked, start=1):
        quality, cost = quality + sample.expensive - sample.cheap, cost + sample.expensive_cost
        below = ranked[place][0] if place < len(ranked) else 0.0
        if below < at and cost <= most and quality > best[0] + 1e-9:
            best = (quality, (at + below) / 2 if place < len(ranked) else 0.0)
    return best[1]


@dataclass(frozen=True)
class ReplayedCascade:
    """What a cascade does on questions that both programs answered: scores, costs, and where it asks, in order."""

    scores: list[float]
    costs: list[float]
    asked: list[bool]

    @property
    def score(self) -> float:
        """The mean score."""
        return float(np.mean(self.scores))

    @property
    def cost(self) -> float:
        """The mean cost."""
        return float(np.mean(self.costs))


def replayed(samples: Sequence[CascadeSample], weights: str, threshold: float) -> ReplayedCascade:
    """Return what the cascade with these knobs does on recorded questions, without asking anything."""
    asked = [asks(sample.features, {"weights": weights, "threshold": threshold}) for sample in samples]
    pairs = list(zip(samples, asked, strict=True))
    return ReplayedCascade(
        [sample.expensive if both else sample.cheap for sample, both in pairs],
        [sample.cheap_cost + (sample.expensive_cost if both else 0.0) for sample, both in pairs],
        asked,
    )


def _validated(x: Array, gain: Array, fitter: Fitter) -> float:
    """Return the mean gain over random mixing at all shares, by scores of questions that were not fitted on."""
    doubt = np.zeros(len(gain))
    for train, held in folds(len(gain)):
        weights = fitter(x[train], gain[train])
        raw = weights[0] + x @ weights[1:]
        spread = raw[train].std() or 1.0  # folds are ranked together
        doubt[held] = (raw[held] - raw[train].mean()) / spread
    order = np.argsort(-doubt, kind="stable")
    ahead = np.concatenate([[0.0], np.cumsum(gain[order])]) / len(order)
    return float(np.mean([ahead[round(share * len(order))] - share * ahead[-1] for share in SHARES]))
