"""Metrics as users of DSPy write them: `(example, prediction, trace=None)`, or with GEPA's two further arguments.

They return a number from 0 to 1, a bool, or a `dspy.Prediction` (or dictionary) of `score` and `feedback`, whose words
GEPA and SIMBA show to the LM that writes instructions. Without words of theirs, expected and given outputs are named.
"""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import dspy

from optimizers.evaluating import Unanswered
from optimizers.examples import OptimizerMetric
from optimizers.feedback.gold import quoted
from optimizers.feedback.metric import feedback_metric
from optimizers.metrics.catalog import given_metric
from optimizers.metrics.metric import Metric
from signatures.common.errors import UserError, one_line
from signatures.common.own_code import digest_of_code

_ALL = 5  # arguments: example, prediction, trace, name of a predictor, its calls


def metric_and_feedback(metric: Any) -> tuple[Metric, OptimizerMetric]:
    """Return a metric of the user, or of ours, and the same with words.

    Args:
        metric: A `Metric`, or a function as the module says.

    Raises:
        UserError: It is neither, or takes other arguments; scoring raises it if the function fails or returns anything
            else.
    """
    if isinstance(metric, Metric):
        return metric, feedback_metric(metric)
    number = _arguments(metric)

    def scored(example: Any, prediction: Any) -> Any:
        return _score(metric(*(example, prediction, None, None, None)[:number]))

    of = metric if hasattr(metric, "__qualname__") else type(metric)  # an object is called as its class
    name = f"{of.__module__}:{of.__qualname__}"
    made = given_metric(scored, name, inspect.getdoc(metric) or "", digest_of_code(of))

    def of_answers(example: Any, prediction: Any) -> float | None:  # of no answer, the function could read no output
        return 0.0 if isinstance(prediction, Unanswered) else made.function(example, prediction)

    def with_words(
        example: Any, prediction: Any, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None
    ) -> Any:
        if pred_name is None:
            return float(of_answers(example, prediction) or 0.0)
        found = metric(*(example, prediction, trace, pred_name, pred_trace)[: _ALL if _takes(metric, _ALL) else number])
        score = float(_score(found) or 0.0)
        return dspy.Prediction(score=score, feedback=_words(found) or _described(example, prediction, score))

    return replace(made, function=of_answers), with_words


def _arguments(metric: Any) -> int:
    """Return how many arguments a metric needs.

    Raises:
        UserError: It is no function, or none that can be called as a metric.
    """
    if not callable(metric) or inspect.isclass(metric):
        raise UserError(
            f"metric must be a function (example, prediction, trace=None), a Metric or a name, got "
            f"{one_line(repr(metric), 60)}."
        )
    found = next((number for number in (2, 3, _ALL) if _takes(metric, number)), None)
    if found is None:
        raise UserError(
            f"The metric takes {one_line(str(inspect.signature(metric)), 80)}: it must take (example, prediction), "
            "(example, prediction, trace), or GEPA's five arguments."
        )
    return found


def _takes(metric: Any, number: int) -> bool:
    try:
        inspect.signature(metric).bind(*range(number))
    except (TypeError, ValueError):
        return False
    return True


def _score(found: Any) -> Any:
    return found.get("score") if isinstance(found, Mapping | dspy.Prediction) else found


def _words(found: Any) -> str | None:
    words = found.get("feedback") if isinstance(found, Mapping | dspy.Prediction) else None
    return None if words is None else str(words)


def _described(example: Any, prediction: Any, score: float) -> str:
    expected = {name: value for name, value in example.labels().items() if name in prediction}
    pairs = [f"{name}: expected {quoted(value)}, got {quoted(prediction[name])}." for name, value in expected.items()]
    return " ".join([f"The score is {score:.2f}.", *pairs])
