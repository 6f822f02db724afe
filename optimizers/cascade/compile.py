"""Ask both programs of a cascade the training questions, and fit its knobs."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from optimizers.cascade.fitting import CascadeSample, Fitted, check_number, fit, threshold_for
from optimizers.evaluating import LeftOut, Outcome, evaluate_examples
from optimizers.examples import Score, example_id
from optimizers.teleprompters.task import training_questions
from programs.cascade import Cascade
from programs.parts.knobs import with_knobs
from programs.parts.prediction import completed
from signatures.common.errors import UserNotice


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
