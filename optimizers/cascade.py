"""Fit the weights and the threshold of a cascade on training questions.

Each training question is answered by both programs once; fitting then costs no LM call. Two rules compete by
cross-validation on these questions: a logistic regression of "the expensive program scores higher", and a linear
regression of how much higher. What counts is the mean score when the doubtful share of the questions, for shares from
10 to 80 %, goes to the expensive program. More rules to choose from, such as single features, cost more than they gain
with a few hundred questions (`experiments/papers/README.md`, "Cascades").
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dspy
import numpy as np

from optimizers.evaluating import LeftOut, Outcome, evaluate_examples
from optimizers.examples import Score, example_id
from optimizers.logistic import FOLDS, Array, Fitter, feature_matrix, folds, linear, logistic
from optimizers.teleprompters.task import training_questions
from programs.cascade import Cascade, asks
from programs.parts.knobs import with_knobs
from programs.parts.logistic import BIAS, format_weights, score
from programs.parts.prediction import completed
from programs.parts.run_features import FEATURES
from signatures.common.errors import UserError, UserNotice

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


@dataclass(frozen=True)
class AskedSamples(LeftOut):
    """The results of both programs of a cascade on training questions.

    Args:
        samples: Of the questions that both answered and that have a score.
    """

    samples: list[CascadeSample]

    @property
    def note(self) -> str | None:
        """How many questions were left out, and why; None if none were."""
        return self.note_beside(len(self.samples))


def fit_cascade(
    cheap: dspy.Module,
    dear: dspy.Module,
    examples: Sequence[dspy.Example],
    metric: Score,
    *,
    before: bool = False,
    most_tokens: float | None = None,
    threads: int = 8,
) -> Cascade:
    """Return a cascade of two programs, fitted on training examples, each of which both programs are asked once.

    Runs on the LM and adapter of the running `dspy.context`. Questions that the metric does not score, or that end in
    an error, are left out, and a `UserNotice` says how many.

    Args:
        cheap: Answers every question.
        dear: The expensive program, which answers where the cheap run looks unsure.
        examples: At least `FEWEST` that are not left out; none may be of a test split.
        metric: Higher is better; None where it is undefined.
        before: Whether it is decided before the cheap program is asked.
        most_tokens: Mean tokens of a question at most, those that a cache saves included; None for no limit.
        threads: Questions asked at a time.

    Raises:
        UserError: There are too few examples, or one is of a test split.
        BudgetExceeded: The budget of the LM is used up.
    """
    cascade = Cascade(cheap, dear, before=before)
    asked = ask_both(cascade, examples, metric, threads=threads)
    if asked.note:
        warnings.warn(asked.note, UserNotice, stacklevel=2)
    return fitted_cascade(cascade, asked, most_tokens=most_tokens)[0]


def ask_both(
    cascade: Cascade,
    examples: Sequence[dspy.Example],
    metric: Score,
    *,
    threads: int = 8,
    report: Callable[[Outcome], None] | None = None,
) -> AskedSamples:
    """Return what both programs of a cascade make of training examples; its weights and threshold do not matter.

    Args:
        cascade: Its knobs `before`, `k` and `fallback` decide what is fitted.
        examples: Different ones; none may be of a test split.
        metric: Higher is better; None where it is undefined.
        threads: Questions asked at a time.
        report: Called with each outcome of either program as soon as it is there, from several threads.

    Raises:
        UserError: There are fewer than `FEWEST` examples, one is of a test split, or two have one id.
        BudgetExceeded: The budget of the LM is used up.
    """
    check_number(len(examples))
    once = training_questions(examples)
    features: dict[str, dict[str, float]] = {}
    abstained: dict[str, set[str]] = {"cheap": set(), "dear": set()}

    def noted(name: str) -> Score:
        def score(example: Any, prediction: Any) -> float | None:
            run = completed(prediction)
            if name == "cheap":
                features[example_id(example)] = cascade.features(example.question, run)
            if run.abstained:
                abstained[name].add(example_id(example))
            return metric(example, prediction)

        return score

    runs = [
        evaluate_examples(program, once, noted(name), threads=threads, report=report)
        for name, program in (("cheap", cascade.cheap), ("dear", cascade.dear))
    ]
    # The expensive program abstains there, so that the cheap answer is returned.
    kept = abstained["dear"] - abstained["cheap"] if cascade.fallback and not cascade.before else set()
    samples: list[CascadeSample] = []
    undefined, errors = 0, []
    for one, other in zip(*runs, strict=True):
        returned = one.score if one.id in kept else other.score
        if error := one.error or other.error:
            errors.append(error)
        elif one.score is None or returned is None:
            undefined += 1
        else:
            tokens, added = one.cost("tokens"), other.cost("tokens") - (one.cost("tokens") if cascade.before else 0)
            samples.append(CascadeSample(one.id, features[one.id], one.score, returned, tokens, added))
    repeated, error = len(examples) - len(once), errors[0] if errors else None
    return AskedSamples(samples, repeated=repeated, undefined=undefined, failed=len(errors), error=error)


def fitted_cascade(
    cascade: Cascade, asked: AskedSamples, *, most_tokens: float | None = None
) -> tuple[Cascade, Fitted]:
    """Return the cascade with fitted weights and threshold, and the rule.

    Args:
        cascade: Is not changed.
        asked: As `ask_both` returns it for this cascade.
        most_tokens: Mean tokens of a question at most, those that a cache saves included; None for no limit.

    Raises:
        UserError: Too few questions are left.
    """
    check_number(len(asked.samples), asked.note)
    rule = fit(asked.samples)
    threshold = threshold_for(asked.samples, rule.weights, most_cost=most_tokens)
    return with_knobs(cascade, weights=rule.weights, threshold=threshold), rule
