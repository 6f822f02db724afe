"""An LM as an entailment oracle: P(yes) that the premise supports the whole statement."""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import dspy

from optimizers.metrics.entailment.oracle import Measured, Pair, over_distinct
from programs.parts.meter import metered, record
from programs.parts.probability import probability
from programs.parts.threads import fanout
from signatures.common.files import sha256_text
from signatures.entailment import JudgeEntailment

if TYPE_CHECKING:
    from programs.lms.connect import Connection

BATCH = 64  # pairs per fan-out


class LMOracle(Measured):
    """P(entailed) by an LM. Its calls do not count as calls of the question being scored; its parse failures do.

    Args:
        connection: The LM that judges.
        width: Pairs judged in parallel.
    """

    threshold = 0.5

    def __init__(self, connection: "Connection", *, width: int = 8):
        self.name = "lm" if connection.id == "embedded" else f"lm:{connection.id}"
        self._connection, self._width = connection, width
        self._predict = dspy.Predict(JudgeEntailment)
        self.unparsed = 0
        self.cut = 0

    @functools.cached_property
    def fingerprint(self) -> str:
        """Return the model with a hash of the prompt and of how P(yes) is computed."""
        fields = " ".join(f"{name} {field.json_schema_extra}" for name, field in JudgeEntailment.fields.items())
        prompt = f"{JudgeEntailment.instructions} {fields} {self._connection.probability_mode}"
        return f"lm:{self._connection.lm.model}:{sha256_text(prompt)[:16]}"

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        """Return P(yes) of each (premise, hypothesis); an unparseable reply is 0 and counted in `unparsed`.

        Prompts that were cut to the LM's context are counted in `cut`.
        """
        return over_distinct(pairs, self._ask)

    def _ask(self, pairs: list[Pair]) -> list[float]:
        values: list[float | None] = []
        with self._connection.use(), dspy.context(trace=None), metered() as meter:
            for start in range(0, len(pairs), BATCH):
                tasks = [functools.partial(self._probability, pair) for pair in pairs[start : start + BATCH]]
                values += fanout(tasks, width=self._width)
        self.cut += int(meter.counts()["truncated"])
        unparsed = sum(value is None for value in values)
        self.unparsed += unparsed
        record(parse_failures=unparsed)  # unlike calls, these count for the question being scored
        return [0.0 if value is None else value for value in values]

    def _probability(self, pair: Pair) -> float | None:
        p_yes = probability(self._predict, premise=pair[0], statement=pair[1])
        return None if p_yes is None else p_yes.value
