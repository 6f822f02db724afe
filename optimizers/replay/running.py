"""Run a program on one question for a record: what is known is answered from memory, what is new is asked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dspy

from optimizers.metrics.metric import Metric
from optimizers.replay.memory import Memory, remembering, with_memory
from optimizers.replay.record import Record
from optimizers.replay.trees import Leaf, Step
from programs.parts.gates import Decided, listening
from programs.parts.knobs import with_knobs
from programs.parts.meter import Meter, metered

_RUNS = 3  # of one question at most, until all is known
_PAID = (  # what a meter counts of calls, as against what it counts of replies
    "calls", "cached_calls", "prompt_tokens", "completion_tokens", "cached_tokens", "usd", "cached_usd", "retries",
    "wait_seconds",
)  # fmt: skip
Scores = Callable[[Any, Any], dict[str, float | None]]


def scores_by(metrics: Sequence[Metric]) -> Scores:
    """Return the function that scores a prediction by metrics, by name."""
    return lambda example, prediction: {metric.name: metric(example, prediction) for metric in metrics}


@dataclass(frozen=True)
class Runner:
    """Runs the recorded program with other knobs, on the LM and adapter of the running `dspy.context`.

    Args:
        program: As it was recorded; it is not changed. Its searches must be remembered (`for_program`).
        record: Of the program.
        scores: Scores a prediction by all recorded metrics.
        inputs: Returns what an example is asked with; by default its inputs.
        paid: Counts what the runs cost: of the LM calls those that memory did not answer.
    """

    program: dspy.Module
    record: Record
    scores: Scores
    inputs: Callable[[dspy.Example], Mapping[str, Any]] = lambda example: dict(example.inputs())
    paid: Meter = field(default_factory=Meter, compare=False)

    @classmethod
    def for_program(cls, program: dspy.Module, record: Record, scores: Scores, **settings: Any) -> "Runner":
        """Return the runner of a copy of the program whose searches are remembered."""
        return cls(with_memory(program), record, scores, **settings)

    def run(self, example: dspy.Example, knobs: Mapping[str, Any], memory: Memory) -> Leaf:
        """Return what a question comes to with a setting of the knobs.

        The program runs until nothing it does is new, so that its costs are counted as if nothing had been known.

        Raises:
            Exception: What the program or a metric raised.
            BaseException: As a spent budget; what was learned until then is in the memory.
        """
        program = with_knobs(self.program, **self.record.setting(knobs))
        for _ in range(_RUNS):
            known, path = len(memory), list[Decided]()

            def listen(asking: dspy.Module, decided: Decided, path: list[Decided] = path) -> None:
                if asking is program:
                    path.append(decided)

            with metered() as meter, remembering(memory) as answered, listening(listen), _quiet():
                try:
                    prediction = program(**self.inputs(example))
                finally:
                    self._pay(meter, answered)
            if len(memory) == known:
                break
        costs = {name: count for name, count in meter.counts().items() if count}
        return Leaf.model_validate_json(
            Leaf(
                root=dict(self.record.root(knobs)),
                path=[Step(gate=each.gate, values=each.values, decision=each.decision) for each in path],
                scores=self.scores(example, prediction),
                costs=costs,
                answer=str(prediction.get("answer") or ""),
                abstained=bool(prediction.get("abstained")),
            ).model_dump_json()
        )

    def _pay(self, meter: Meter, answered: Meter) -> None:
        whole, free = meter.counts(), answered.counts()
        self.paid.add(**{name: max(0.0, whole[name] - free[name]) for name in _PAID})


def _quiet() -> Any:
    return dspy.context(trace=None, disable_history=True)
