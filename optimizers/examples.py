"""Converts questions to DSPy examples, and metrics to the form that DSPy's optimizers expect."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import dspy

from corpora.questions import Question
from optimizers.metrics.catalog import Metric
from signatures.common.errors import UserError
from signatures.text_words import words_or_text

Score = Callable[[Any, Any], float | None]  # a Metric is one
OptimizerMetric = Callable[..., float | bool]
Asked = TypeVar("Asked")  # an example or a question
# Of the training questions, those that candidates are compared on if no validation questions are given.
HELD_OUT, MOST_HELD_OUT = 0.5, 200


def to_examples(questions: Iterable[Question]) -> list[dspy.Example]:
    """Return one example per question, in order: `question` is the input, everything else is gold.

    `answer` is the first of `answers`, because labelled demonstrations need the output field of the predictors.
    """
    examples = []
    for question in questions:
        fields = question.model_dump()
        if fields.get("answers"):
            fields["answer"] = fields["answers"][0]
        examples.append(dspy.Example(**fields).with_inputs("question"))
    return examples


def asks_question(asked: Any) -> bool:
    """Return whether what is asked is a question and nothing else, as programs of verihop are, not other modules."""
    if not isinstance(asked, dspy.Example):
        return True
    try:
        return {*asked.inputs().keys()} == {"question"}
    except ValueError:  # its inputs are not set
        return "question" in asked


def asked_text(asked: Any) -> str:
    """Return what an example or a question asks: the question, or else the inputs of the example by name."""
    if asks_question(asked):
        return str(asked.question)
    return "\n".join(f"{name}: {value}" for name, value in asked.inputs().items())


def asked_words(asked: Any) -> str:
    """Return a key that is equal for examples or questions of the same words."""
    return words_or_text(asked_text(asked))


def example_id(asked: Any) -> str:
    """Return the id of an example or a question; what it asks if it has none."""
    return str(getattr(asked, "id", None) or asked_text(asked))


def different(asked: Sequence[Asked]) -> list[Asked]:
    """Return the questions, and of those of the same words the first: parts of them have none in common."""
    found: dict[str, Asked] = {}
    for each in asked:
        found.setdefault(asked_words(each), each)
    return [*found.values()]


def hold_out(asked: Sequence[Asked], *, seed: int = 0) -> tuple[list[Asked], list[Asked]]:
    """Divide questions into training and validation questions, each in the given order.

    A share of `HELD_OUT`, at most `MOST_HELD_OUT`, is held out for validation, the same for the same seed and questions
    in any order. Questions of the same words stay together.

    Raises:
        UserError: There are fewer than two different questions.
    """
    texts = [asked_words(each) for each in asked]
    order = sorted(set(texts), key=lambda text: hashlib.sha256(f"{seed}:{text}".encode()).digest())
    if len(order) < 2:
        raise UserError(
            "An optimizer that compares candidates needs at least two different questions: one to learn from and one "
            "to compare on."
        )
    held = set(order[: min(MOST_HELD_OUT, max(1, round(HELD_OUT * len(order))))])
    pairs = list(zip(asked, texts, strict=True))
    return [each for each, text in pairs if text not in held], [each for each, text in pairs if text in held]


def _ascending(metric: Score) -> None:
    if isinstance(metric, Metric) and not metric.higher_is_better:
        raise UserError(f"Metric {metric.name!r} is better when lower; optimizers need one that is better when higher.")


def graded_metric(metric: Score) -> OptimizerMetric:
    """Return `metric` for optimizers that compare scores (GEPA, SIMBA, COPRO, ...): always a float.

    The function takes GEPA's five arguments, three of them optional. Where the metric is undefined it returns 0.0,
    the same for every candidate program.

    Raises:
        UserError: Lower is better in `metric`.
    """
    _ascending(metric)

    def graded(
        example: Any, prediction: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
    ) -> float:
        return float(metric(example, prediction) or 0.0)

    return graded


def bootstrap_metric(metric: Score, *, threshold: float = 1.0) -> OptimizerMetric:
    """Return `metric` for optimizers that collect demonstrations (bootstrap, random search, MIPROv2, fine-tuning).

    While they bootstrap (`trace` is not None) it returns whether the score reaches the threshold, as a bool: DSPy tests
    for truth, so a score of 0.05, or a `Prediction` with score 0, would count as success. While they compare candidates
    (`trace` is None) it returns the score.

    Args:
        metric: The metric to optimise.
        threshold: Lowest score of a demonstration, above 0.

    Raises:
        UserError: Lower is better in `metric`, or `threshold` is not above 0.
    """
    graded = graded_metric(metric)
    if not threshold > 0:
        raise UserError(f"The threshold of a demonstration must be above 0, got {threshold}.")

    def strict(example: Any, prediction: Any, trace: Any = None) -> float | bool:
        score = graded(example, prediction)
        return score if trace is None else score >= threshold

    return strict
