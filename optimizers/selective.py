"""Fit when a program answers: how likely an answer is right, and from which probability on a precision holds.

Each training question is asked once; fitting costs no LM call.

1. The probability is a logistic regression of "the answer is right", on what the program itself states of its answer
   (`STATED`) or on all features of its run; the lower log loss in cross-validation decides.
2. The threshold for a precision is tested, not estimated (Angelopoulos et al., "Learn then Test", 2021, split fixed
   sequence testing, https://arxiv.org/abs/2110.01052): the questions are split by a hash of their ids. One part fits
   the weights, its quantiles are the thresholds, and the one that it supports most comes first. From there on they are
   tested on the other part from high to low, each by the exact binomial tail at level `delta`, until one fails. The
   last that passed has the precision on questions of the same distribution, except with a probability of at most
   `delta`.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import dspy
import numpy as np

from optimizers.evaluating import LeftOut, Outcome, evaluate_examples
from optimizers.examples import Score, example_id
from optimizers.logistic import FOLDS, Array, Fitter, feature_matrix, folds, logistic
from optimizers.teleprompters.task import training_questions
from programs.parts.knobs import with_knobs
from programs.parts.logistic import BIAS, format_weights, score
from programs.parts.prediction import completed
from programs.parts.run_features import FEATURES
from programs.selective import Selective
from signatures.common.errors import UserError, UserNotice
from signatures.common.files import sha256_text

STATED = ("confidence", "unscored", "verified", "judged_true", "agreement", "p_yes")  # of the features of a run
RULES = {"stated": (STATED, 1.0), "all": (tuple(FEATURES), 30.0)}  # features, and the penalty of their squared weights
FEWEST = 4 * FOLDS  # training questions
DELTA = 0.05
_FIT_SHARE = 0.4  # of the questions; the others test thresholds
_STEPS = 20  # thresholds at most, 0 beside


@dataclass(frozen=True)
class Graded:
    """A training question that was answered."""

    id: str
    features: Mapping[str, float]
    right: bool


@dataclass(frozen=True)
class Asked(LeftOut):
    """The results of a program on training questions.

    Args:
        answers: Of the questions that it answered and that have a score.
        abstained: Questions on which it abstained itself.
    """

    answers: list[Graded]
    abstained: int = 0

    @property
    def note(self) -> str | None:
        """How many questions were left out, and why; None if none were."""
        return self.note_beside(len(self.answers) + self.abstained)


@dataclass(frozen=True)
class Threshold:
    """A threshold, and the answers of the test part that are given with it."""

    least: float
    answered: int
    right: int


@dataclass(frozen=True)
class Fitted:
    """When a program answers.

    Args:
        rule: Key in `RULES`.
        weights, least: The knobs.
        log_loss: In nats, of each rule in cross-validation on the part that was fitted on.
        fitted_on: Questions of that part.
        tested_on: Questions of the other part; 0 without a precision.
        tested: The threshold on the other part; None without a precision.
    """

    rule: str
    weights: str
    least: float
    log_loss: Mapping[str, float] = field(default_factory=dict)
    fitted_on: int = 0
    tested_on: int = 0
    tested: Threshold | None = None


def fit_selective(
    program: dspy.Module,
    examples: Sequence[dspy.Example],
    metric: Score,
    *,
    precision: float | None = None,
    delta: float = DELTA,
    threads: int = 8,
) -> Selective:
    """Return a program that withholds answers that are not likely enough to be right.

    Runs on the LM and adapter of the running `dspy.context`. Questions that the metric does not score, or that end in
    an error, are left out, and a `UserNotice` says how many.

    Args:
        program: Is asked each example once.
        examples: At least `FEWEST`, better hundreds; none may be of a test split.
        metric: 1 where an answer is right, else 0; None where it is undefined.
        precision: Minimum share of right answers among those given, between 0 and 1; None withholds none.
        delta: Maximum probability, over draws of training questions, that the share is nevertheless below `precision`.
        threads: Questions asked at a time.

    Raises:
        UserError: There are too few examples, one is of a test split, a score is neither 0 nor 1, `precision` or
            `delta` is not between 0 and 1, or no threshold is known to have the precision.
        BudgetExceeded: The budget of the LM is used up.
    """
    _check_between(precision, delta)
    selective = Selective(program)
    asked = ask(selective, examples, metric, threads=threads)
    if asked.note:
        warnings.warn(asked.note, UserNotice, stacklevel=2)
    found = fit(asked, precision=precision, delta=delta)
    return with_knobs(selective, weights=found.weights, least=found.least)


def ask(
    selective: Selective,
    examples: Sequence[dspy.Example],
    metric: Score,
    *,
    threads: int = 8,
    report: Callable[[Outcome], None] | None = None,
) -> Asked:
    """Return what the program of `selective` makes of training examples; its knobs do not matter.

    Args:
        selective: With the program.
        examples: Different ones; none may be of a test split.
        metric: 1 where an answer is right, else 0; None where it is undefined.
        threads: Questions asked at a time.
        report: Called with each outcome as soon as it is there, from several threads.

    Raises:
        UserError: There are fewer than `FEWEST` examples, one is of a test split, or two have one id.
        BudgetExceeded: The budget of the LM is used up.
    """
    _check_number(len(examples), None)
    once = training_questions(examples)
    features: dict[str, dict[str, float]] = {}

    def noted(example: Any, prediction: Any) -> float | None:
        run = completed(prediction)
        if not run.abstained:
            features[example_id(example)] = selective.features(example.question, run)
        value = metric(example, prediction)
        if value not in (None, 0, 1):
            raise UserError(f"A score is {value:g}: fit by a metric that is 0 or 1, such as em or acc[substring].")
        return value

    outcomes = evaluate_examples(selective.program, once, noted, threads=threads, report=report)
    answered = [outcome for outcome in outcomes if outcome.error is None and outcome.id in features]
    scored = [(outcome.id, outcome.score) for outcome in answered if outcome.score is not None]
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    return Asked(
        [Graded(id, features[id], bool(value)) for id, value in scored],
        abstained=len(outcomes) - len(errors) - len(answered),
        undefined=len(answered) - len(scored),
        failed=len(errors),
        error=errors[0] if errors else None,
        repeated=len(examples) - len(once),
    )


def fit(asked: Asked, *, precision: float | None = None, delta: float = DELTA) -> Fitted:
    """Return the weights of the rule with the lower log loss, and the lowest threshold that has the precision.

    Args:
        asked: The results of the program on training questions; none that is evaluated later may be among them.
        precision: Minimum share of right answers among those given, between 0 and 1; None gives all answers.
        delta: Maximum probability that the share is nevertheless below `precision`, between 0 and 1.

    Raises:
        UserError: There are too few answers, all or none of them are right, `precision` or `delta` is not between 0 and
            1, or no threshold has the precision.
    """
    _check_between(precision, delta)
    _check_number(len(asked.answers), asked.note)
    if precision is None:
        rule, weights, losses = _probability(asked.answers)
        return Fitted(rule, weights, 0.0, losses, len(asked.answers))
    ranked = sorted(asked.answers, key=lambda each: sha256_text(each.id))
    size = math.ceil(_FIT_SHARE * len(ranked))
    own, other = ranked[:size], ranked[size:]
    rule, weights, losses = _probability(own)
    tested = least_for(own, other, weights, precision, delta)
    return Fitted(rule, weights, tested.least, losses, len(own), len(other), tested)


def least_for(
    own: Sequence[Graded], other: Sequence[Graded], weights: str, precision: float, delta: float
) -> Threshold:
    """Return the lowest threshold that passes the test of a precision.

    Args:
        own: The answers that the weights were fitted on.
        other: The answers that thresholds are tested on.
        weights: The knob.
        precision, delta: As for `fit`.

    Raises:
        UserError: The first fails.
    """
    levels = sorted((score(each.features, weights) for each in own), reverse=True)
    quantiles = {levels[(len(levels) - 1) * step // _STEPS] for step in range(_STEPS)}
    thresholds = [*sorted(quantiles, reverse=True), 0.0]
    support = [_tail(_given(own, weights, least), precision) for least in thresholds]
    tests = [_given(other, weights, least) for least in thresholds[support.index(min(support)) :]]
    passed = list(takewhile(lambda tested: _tail(tested, precision) <= delta, tests))
    if not passed:
        raise UserError(
            f"No threshold is known to have a precision of {precision:g}: of the {len(other)} answers that were tested "
            f"on, the surest {tests[0].answered} have {tests[0].right} right, which shows "
            f"{_shown(tests[0], delta):.2f} (delta {delta:g}). Ask for less, or fit on more questions."
        )
    return passed[-1]


def _given(answers: Sequence[Graded], weights: str, least: float) -> Threshold:
    given = [each.right for each in answers if score(each.features, weights) >= least]
    return Threshold(least, len(given), sum(given))


def _tail(tested: Threshold, precision: float) -> float:
    """Return the probability of at least as many right answers if their share were `precision` (exact binomial)."""
    n, log, rest = tested.answered, math.log(precision), math.log1p(-precision)
    terms = (
        math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * log + (n - k) * rest
        for k in range(tested.right, n + 1)
    )
    return min(1.0, math.fsum(map(math.exp, terms)))


def _shown(tested: Threshold, delta: float) -> float:
    """Return the highest precision that passes the test, to three decimals (Clopper and Pearson 1934)."""
    low, high = 0, 1000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _tail(tested, middle / 1000) <= delta else (low, middle)
    return low / 1000


def _probability(answers: Sequence[Graded]) -> tuple[str, str, dict[str, float]]:
    """Return the rule, its weights, and the log loss of each rule in cross-validation."""
    right = np.array([each.right for each in answers], dtype=float)
    if right.min() == right.max():
        what = "All" if right.max() else "None"
        raise UserError(
            f"{what} of the {len(right)} answers that are fitted on are right: right and wrong cannot be told apart. "
            "Fit on more questions."
        )
    features = [each.features for each in answers]
    tables = {rule: (*feature_matrix(features, names), logistic(penalty)) for rule, (names, penalty) in RULES.items()}
    losses = {rule: _log_loss(x, right, fitter) for rule, (_, x, fitter) in tables.items()}
    best = min(losses, key=lambda rule: losses[rule])
    names, x, fitter = tables[best]
    weights = dict(zip((BIAS, *names), map(float, fitter(x, right)), strict=True))
    return best, format_weights(weights), losses


def _log_loss(x: Array, right: Array, fitter: Fitter) -> float:
    """Return the mean log loss of answers that were not fitted on."""
    chance = np.zeros(len(right))
    for train, held in folds(len(right)):
        weights = fitter(x[train], right[train])
        chance[held] = 1 / (1 + np.exp(-np.clip(weights[0] + x[held] @ weights[1:], -30, 30)))
    return float(-np.mean(right * np.log(chance) + (1 - right) * np.log1p(-chance)))


def _check_between(precision: float | None, delta: float) -> None:
    for name, value in (("precision", precision), ("delta", delta)):
        if value is not None and not 0 < value < 1:
            raise UserError(f"{name} must be between 0 and 1, both excluded, got {value}.")


def _check_number(number: int, note: str | None) -> None:
    if number < FEWEST:
        left = "" if note is None else f" {note}"
        raise UserError(f"At least {FEWEST} training questions with an answer are needed, got {number}.{left}")
