"""Ask both programs of a cascade the training questions, and fit its knobs."""

from collections.abc import Sequence
from typing import Any

import dspy

from optimizers.cascade.fitting import Sample, fit, threshold_for
from optimizers.evaluating import evaluate_examples
from optimizers.examples import Score
from programs.cascade import Cascade
from programs.parts.knobs import with_knobs
from programs.parts.prediction import make_prediction
from programs.parts.run_features import described, question_features, run_features
from signatures.common.errors import UserError


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

    Runs on the LM and adapter of the running `dspy.context`.

    Args:
        cheap: Answers every question.
        dear: Answers where the cheap run looks doubtful.
        examples: At least `FEWEST`, with ids; none may be of a test split.
        metric: Higher is better.
        before: Whether it is decided before the cheap program is asked.
        most_tokens: Mean tokens of a question at most, those that a cache saves included; None for no limit.
        threads: Questions asked at a time.

    Raises:
        UserError: There are too few examples, or one is of a test split.
        BudgetExceeded: The budget of the LM is used up.
    """
    for example in examples:
        if example.get("split") == "test":
            raise UserError(
                f"Question {example.get('id')!r} is of the split test: fit the cascade on training questions."
            )
    cascade = Cascade(cheap, dear, before=before)
    features: dict[str, dict[str, float]] = {}
    abstained: dict[str, set[str]] = {"cheap": set(), "dear": set()}

    def noted(name: str) -> Score:
        def score(example: Any, prediction: Any) -> float | None:
            if name == "cheap":
                known = make_prediction("") if before else prediction
                passages = described(example.question, known, cascade.retrieve, cascade.k)
                features[example.id] = (
                    question_features(example.question, passages)
                    if before
                    else run_features(example.question, prediction, passages)
                )
            if prediction.abstained:
                abstained[name].add(example.id)
            return metric(example, prediction)

        return score

    runs = [
        evaluate_examples(program, examples, noted(name), threads=threads)
        for name, program in (("cheap", cheap), ("dear", dear))
    ]
    kept = set() if before else abstained["dear"] - abstained["cheap"]  # the dear program abstains there
    samples = [
        Sample(
            one.id,
            features[one.id],
            one.score or 0.0,
            (one.score if one.id in kept else other.score) or 0.0,
            one.tokens,
            other.tokens - one.tokens if before else other.tokens,
        )
        for one, other in zip(*runs, strict=True)
        if one.error is None and other.error is None
    ]
    weights = fit(samples).weights
    return with_knobs(cascade, weights=weights, threshold=threshold_for(samples, weights, most_cost=most_tokens))
