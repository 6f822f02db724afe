"""What a metric is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Metric:
    """A score of one question.

    A text or verdict that cannot be read scores as a wrong answer and is recorded in the running meter
    (`programs.parts.meter`, parse_failures); whoever scores counts it as unparsed.

    Args:
        name: As it stands in tables, with the definition in brackets where there are several.
        definition: What is scored, in one or two sentences; stored with every run.
        function: Takes an example with gold fields and a prediction and returns a score, None where the question
            lacks the gold that the metric needs. It never takes a mean: `experiments/analysis/statistics.py` does.
        source: Where the definition is published.
        higher_is_better: The direction of improvement.
        judged: An LM decides; the function needs `optimizers.metrics.judge.judged_by`.
    """

    name: str
    definition: str
    function: Callable[[Any, Any], float | None]
    source: str
    higher_is_better: bool = True
    judged: bool = False

    def __call__(self, example: Any, prediction: Any) -> float | None:
        """Return the score of one question."""
        return self.function(example, prediction)
