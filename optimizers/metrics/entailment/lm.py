"""An LM as an entailment oracle: P(yes) to the question whether the premise supports the whole statement."""

import functools
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import dspy

from optimizers.metrics.entailment.agreement import agreement_of
from optimizers.metrics.entailment.oracle import Agreement, Pair, over_distinct
from programs.parts.fanout import fanout
from programs.parts.meter import metered, record
from programs.parts.probability import probability
from signatures.common.files import sha256_text
from signatures.entailment import JudgeEntailment

BATCH = 64  # pairs asked before the next ones are prepared


class Judging(Protocol):
    """What is needed of a connection (`programs.lms.connect.Connection` is one)."""

    @property
    def id(self) -> str:
        """The id the LM was asked for by."""
        ...

    @property
    def lm(self) -> dspy.LM:
        """The LM."""
        ...

    @property
    def probability_mode(self) -> str:
        """How P(yes) is read."""
        ...

    def use(self) -> AbstractContextManager[None]:
        """Return a context in which programs run on the LM."""
        ...


class LMOracle:
    """P(entailed) by an LM. Its calls are not counted as the calls of the question being scored, unread replies are.

    Args:
        connection: The LM that judges.
        width: Pairs judged side by side.
    """

    threshold = 0.5

    def __init__(self, connection: Judging, *, width: int = 8):
        self.name = "lm" if connection.id == "embedded" else f"lm:{connection.id}"
        self._connection, self._width = connection, width
        self._predict = dspy.Predict(JudgeEntailment)
        self.unread = 0
        self.cut = 0

    @functools.cached_property
    def fingerprint(self) -> str:
        """Return the model with a hash of the prompt and of how P(yes) is read."""
        fields = " ".join(f"{name} {field.json_schema_extra}" for name, field in JudgeEntailment.fields.items())
        asked = f"{JudgeEntailment.instructions} {fields} {self._connection.probability_mode}"
        return f"lm:{self._connection.lm.model}:{sha256_text(asked)[:16]}"

    @property
    def agreement(self) -> Agreement | None:
        """Return the measured agreement of this LM with people."""
        return agreement_of(self.fingerprint)

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        """Return P(yes) of each (premise, hypothesis); a reply that says neither yes nor no is 0, counted in `unread`.

        Prompts that had to be cut to the LM's context are counted in `cut`.
        """
        return over_distinct(pairs, self._ask)

    def _ask(self, pairs: list[Pair]) -> list[float]:
        values: list[float | None] = []
        with self._connection.use(), dspy.context(trace=None), metered() as meter:
            for start in range(0, len(pairs), BATCH):
                tasks = [functools.partial(self._one, pair) for pair in pairs[start : start + BATCH]]
                values += fanout(tasks, width=self._width)
        self.cut += int(meter.counts()["truncated"])
        unread = sum(value is None for value in values)
        self.unread += unread
        record(parse_failures=unread)  # unlike its calls: whoever scores counts these as unparsed
        return [0.0 if value is None else value for value in values]

    def _one(self, pair: Pair) -> float | None:
        belief = probability(self._predict, premise=pair[0], statement=pair[1])
        return None if belief is None else belief.value
