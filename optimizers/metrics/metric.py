"""The record of a metric."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from optimizers.metrics.entailment.oracle import Entails, Pair
from optimizers.metrics.needs import Need


@dataclass(frozen=True)
class Metric:
    """A score of one question.

    A reply or verdict that cannot be parsed scores as a wrong answer and is recorded in the current meter
    (`programs.parts.meter`, `parse_failures`), so that the runner counts it as unparsed.

    Args:
        name: Its name in tables, with the definition in brackets if there are several definitions.
        definition: What is scored, in one or two sentences; stored with every run.
        function: Takes an example with gold fields and a prediction and returns a score; None if the question lacks
            the gold that the metric needs. It never averages: `experiments/analysis/statistics.py` does.
        source: URL of the published definition.
        higher_is_better: The direction of improvement.
        judged: Whether an LM decides; the function then needs `optimizers.metrics.judges.answer_judge.judged_by`.
        needs: What the question and the prediction must have, so that the score means something.
    """

    name: str
    definition: str
    function: Callable[[Any, Any], float | None]
    source: str
    higher_is_better: bool = True
    judged: bool = False
    needs: tuple[Need, ...] = ()

    def __call__(self, example: Any, prediction: Any) -> float | None:
        """Return the score of one question."""
        return self.function(example, prediction)


@dataclass(frozen=True)
class OracleMetric:
    """A score of one question that needs the verdicts of an entailment oracle.

    Args:
        definition: What is scored, in one or two sentences.
        pairs: Takes an example and a prediction and returns the (premise, hypothesis) pairs to judge.
        function: Takes an example, a prediction and the verdicts on those pairs and returns a score or None.
        source: URL of the published definition.
        needs: What the question and the prediction must have, so that the score means something.
        higher_is_better: The direction of improvement.
    """

    definition: str
    pairs: Callable[[Any, Any], list[Pair]]
    function: Callable[[Any, Any, Entails], float | None]
    source: str
    needs: tuple[Need, ...] = ()
    higher_is_better: bool = True
