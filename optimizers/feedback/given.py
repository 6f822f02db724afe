"""Metrics as users of DSPy write them: `(example, prediction, trace=None)`, or with GEPA's two further arguments.

They return a number from 0 to 1, a bool, or a `dspy.Prediction` (or dictionary) of `score` and `feedback`, whose words
GEPA and SIMBA show to the LM that writes instructions. Without words of theirs, expected and given outputs are named.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import dspy

from optimizers.evaluating import Unanswered
from optimizers.examples import OptimizerMetric, example_id
from optimizers.feedback.gold import quoted
from optimizers.feedback.metric import feedback_metric
from optimizers.metrics.catalog import given_metric
from optimizers.metrics.metric import OF_QUESTION, Metric, Need
from signatures.common.errors import UserError, one_line
from signatures.common.own_code import digest_of_code, takes

_ALL = 5  # arguments: example, prediction, trace, name of a predictor, its calls


class Values:
    """Notes for which examples a metric has a value, since optimizers take 0 where it has none. Safe under threads.

    Args:
        metric: Scores of it that pass `__call__` are noted.
    """

    def __init__(self, metric: Metric):
        self._metric = metric
        self._defined: dict[str, bool] = {}  # by the id of the example
        self._what, self._expected = "", frozenset[str]()

    def expect(self, what: str, examples: Sequence[dspy.Example]) -> None:
        """Have an error raised once all of these have been scored, and none has a value.

        Args:
            what: They are, such as "validation".
        """
        self._what, self._expected = what, frozenset(example_id(each) for each in examples)

    @property
    def undefined(self) -> set[str]:
        """Ids of examples that were scored and never had a value."""
        return {name for name, defined in self._defined.copy().items() if not defined}

    def __call__(self, example: Any, prediction: Any) -> float | None:
        """Return the score.

        Raises:
            UserError: The metric has no value for any of the expected examples, or reads an answer that the module
                does not give.
        """
        if isinstance(prediction, Unanswered):
            return self._metric.function(example, prediction)
        answers = any(hasattr(prediction, name) for name in ("answer", "response"))
        if Need.ANSWERS in self._metric.needs and not answers:
            has = prediction.keys() if isinstance(prediction, dspy.Example) else [type(prediction).__name__]
            raise UserError(
                f"Metric {self._metric.name} reads the output answer, and the module has only "
                f"{', '.join(has) or 'none'}: give a metric that is a function (example, prediction)."
            )
        value, name = self._metric.function(example, prediction), example_id(example)
        self._defined[name] = self._defined.get(name, False) or value is not None
        if value is None and self._expected and self._expected <= self.undefined:
            needs = ", ".join(each.value for each in self._metric.needs if each in OF_QUESTION)
            cure = f"give examples with {needs}" if needs else "let it return a number where an example can be scored"
            raise UserError(
                f"Metric {self._metric.name} has no value for any of the {len(self._expected)} {self._what} examples: "
                f"{cure}, or give another metric."
            )
        return value


def metric_and_feedback(metric: Any) -> tuple[Metric, OptimizerMetric, Values]:
    """Return a metric of the user, or of ours, the same with words, and for which examples they had a value.

    Args:
        metric: A `Metric`, or a function as the module says.

    Raises:
        UserError: It is neither, or takes other arguments; scoring raises it if the function fails or returns anything
            else.
    """
    if isinstance(metric, Metric):
        values = Values(metric)
        watched = replace(metric, function=values)
        return watched, feedback_metric(watched), values
    number = _arguments(metric)

    def scored(example: Any, prediction: Any) -> Any:
        return _score(metric(*(example, prediction, None, None, None)[:number]))

    of = metric if hasattr(metric, "__qualname__") else type(metric)  # an object is called as its class
    name = f"{of.__module__}:{of.__qualname__}"
    made = given_metric(scored, name, inspect.getdoc(metric) or "", digest_of_code(of))

    def of_answers(example: Any, prediction: Any) -> float | None:  # of no answer, the function could read no output
        return 0.0 if isinstance(prediction, Unanswered) else made.function(example, prediction)

    values = Values(replace(made, function=of_answers))

    def with_words(
        example: Any, prediction: Any, trace: Any = None, pred_name: str | None = None, pred_trace: Any = None
    ) -> Any:
        if pred_name is None:
            return float(values(example, prediction) or 0.0)
        given = _ALL if takes(metric, *range(_ALL)) else number
        found = metric(*(example, prediction, trace, pred_name, pred_trace)[:given])
        score = float(_score(found) or 0.0)
        return dspy.Prediction(score=score, feedback=_words(found) or _described(example, prediction, score))

    return replace(made, function=values), with_words, values


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
    found = next((number for number in (2, 3, _ALL) if takes(metric, *range(number))), None)
    if found is None:
        raise UserError(
            f"The metric takes {one_line(str(inspect.signature(metric)), 80)}: it must take (example, prediction), "
            "(example, prediction, trace), or GEPA's five arguments."
        )
    return found


def _score(found: Any) -> Any:
    return found.get("score") if isinstance(found, Mapping | dspy.Prediction) else found


def _words(found: Any) -> str | None:
    words = found.get("feedback") if isinstance(found, Mapping | dspy.Prediction) else None
    return None if words is None else str(words)


def _described(example: Any, prediction: Any, score: float) -> str:
    expected = {name: value for name, value in example.labels().items() if name in prediction}
    pairs = [f"{name}: expected {quoted(value)}, got {quoted(prediction[name])}." for name, value in expected.items()]
    return " ".join([f"The score is {score:.2f}.", *pairs])
