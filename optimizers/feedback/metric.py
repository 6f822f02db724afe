"""The metric in the form that GEPA expects: a score, and on demand what was wrong, in words.

GEPA (Agrawal et al., "GEPA: Reflective Prompt Evolution Can Outperform Reinforcement Learning",
https://arxiv.org/abs/2507.19457) shows the text to the LM that writes the next instruction.
"""

from collections.abc import Mapping
from typing import Any

import dspy

from optimizers.examples import OptimizerMetric, Score, graded_metric
from optimizers.feedback.gold import gold_of
from optimizers.feedback.prediction import describe
from optimizers.feedback.predictor import Call, describe_call
from optimizers.metrics.fields import question_of


def feedback_metric(score: Score, *, titles: Mapping[str, str] | None = None) -> OptimizerMetric:
    """Return a metric whose result is a float, or, when a predictor is named, a `Prediction` of score and feedback.

    The text says only what the gold of the example says; it is meant for training questions.

    Args:
        score: The metric to optimise.
        titles: Passage id -> title of gold passages, so that those not retrieved can be named by title. By default the
            title is read from the ids of converted benchmarks, and other passages are named by id.

    Raises:
        UserError: Lower is better in `score`.
    """
    graded = graded_metric(score)

    def metric(
        example: Any, prediction: Any, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None
    ) -> Any:
        value = graded(example, prediction)
        if pred_name is None:
            return value
        text = feedback(example, prediction, value, pred_name=pred_name, pred_trace=pred_trace, titles=titles)
        return dspy.Prediction(score=value, feedback=text)

    return metric


def feedback(
    example: Any,
    prediction: Any,
    score: float,
    *,
    pred_name: str | None = None,
    pred_trace: Any = None,
    titles: Mapping[str, str] | None = None,
) -> str:
    """Return what was right and wrong in a prediction, and in the calls of one predictor.

    Args:
        example: The question with its gold.
        prediction: What the program returned for it.
        score: The score of the prediction, in [0, 1].
        pred_name: Name of the predictor to say more about.
        pred_trace: Its calls: (predictor, inputs, outputs) each.
        titles: Passage id -> title of gold passages.
    """
    gold = gold_of(example, prediction, titles)
    lines = [f"The score of the whole program is {score:.2f}.", *describe(example, prediction, gold)]
    calls = [
        describe_call(Call(question_of(example), dict(inputs), dict(outputs), gold))
        for _, inputs, outputs in pred_trace or []
    ]
    about = [" ".join(sentences) for sentences in calls if sentences]
    return " ".join(lines) + "".join(f"\nThis call of {pred_name}: {text}" for text in about)
