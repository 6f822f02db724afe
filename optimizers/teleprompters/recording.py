"""What an optimizer has tried and scored, recorded while it runs, so that nothing of it is lost when it is stopped.

DSPy's optimizers hand nothing back before their end. Here every program that is scored on validation examples becomes
a `Candidate` at once: by `score_candidate`, or through DSPy's callback for its own `Evaluate`.
"""

import itertools
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import dspy
from dspy.utils.callback import BaseCallback

from optimizers.evaluating import example_id
from programs.parts.meter import Meter


@dataclass(frozen=True)
class Candidate:
    """A program that an optimizer has scored on validation examples.

    Args:
        program: A copy, as it was when it was scored.
        scores: Score by the id of the example; 0 where the metric is undefined, for every candidate alike.
        n_calls: LM calls of the compilation until then as if it had never been interrupted: those that the cache
            answered included, those that were lost with a stopped session not.
        label: What it is, e.g. "bootstrap 3".
        complete: Whether it was scored on the whole validation set; only such candidates can be chosen.
        lm: The LM that it was scored on, if an optimizer trained it; None for the task LM.
        errors: Examples that ended in an error, which score 0.
    """

    program: dspy.Module
    scores: Mapping[str, float]
    n_calls: int
    label: str
    complete: bool
    lm: dspy.LM | None = None
    errors: int = 0

    @property
    def mean(self) -> float:
        """The mean score; 0 without any."""
        return sum(self.scores.values()) / len(self.scores) if self.scores else 0.0


class Recording(BaseCallback):
    """Candidates in the order in which they were scored, and counts of training examples.

    Args:
        valset: Decides which candidates are complete.
        meter: Counts the LM calls of the compilation.
        known: Candidates of earlier sessions by label.
        on_candidate: Called with each candidate as soon as it is scored.
        on_run: Called after each run of a program on an example, from several threads.

    `lm` is an LM that the candidates from now on belong to, because an optimizer has trained it; None for the task LM.
    """

    def __init__(
        self,
        valset: Iterable[dspy.Example] = (),
        meter: Meter | None = None,
        *,
        known: Mapping[str, Candidate] | None = None,
        on_candidate: Callable[[Candidate], None] | None = None,
        on_run: Callable[[], None] | None = None,
    ):
        self.candidates: list[Candidate] = []
        self.tried = self.failed = 0
        self.stopped: str | None = None  # why an optimizer ended early that hands back its best by itself
        self.details: dict[str, Any] = {}  # what else an optimizer reports, as JSON values
        self.lm: dspy.LM | None = None
        self.known = known or {}
        self._not_repeated = 0  # LM calls of earlier sessions that this one takes over without making them again
        self._meter, self._on_candidate, self._on_run = meter or Meter(), on_candidate, on_run
        self._ids = {example_id(example) for example in valset}
        self._evaluated: dict[str, Any] = {}  # call id of DSPy -> the program that it evaluates
        self._lock = threading.Lock()

    def add(
        self,
        program: dspy.Module,
        scores: Mapping[str, float],
        label: str | None = None,
        *,
        errors: int = 0,
    ) -> Candidate:
        """Record a program with its scores on validation examples, and return it as a candidate.

        Args:
            program: Copied, because some optimizers change it afterwards.
            scores: By id; those of training examples are left out.
            label: What it is; a number by default.
            errors: Examples that ended in an error.
        """
        copy = cleaned(program.deepcopy())
        of_validation = {name: float(score) for name, score in scores.items() if name in self._ids}
        complete = bool(self._ids) and self._ids <= of_validation.keys()
        with self._lock:
            name = self.name_for(label)
            calls = self._meter.calls + self._not_repeated
            candidate = Candidate(copy, of_validation, calls, name, complete, self.lm, errors)
            self.candidates.append(candidate)
        if self._on_candidate is not None:
            self._on_candidate(candidate)
        return candidate

    def take_over(self, program: dspy.Module, known: Candidate, label: str | None) -> Candidate:
        """Record a program with the scores that an earlier session has given it, and count their LM calls."""
        with self._lock:
            self._not_repeated = max(self._not_repeated, known.n_calls - self._meter.calls)
        return self.add(program, known.scores, label, errors=known.errors)

    def name_for(self, label: str | None) -> str:
        """Return the label that the next candidate gets: this one, numbered if it is taken, or else a number."""
        taken = {candidate.label for candidate in self.candidates}
        if not label:
            return f"candidate {len(taken) + 1}"
        names = (label if number == 1 else f"{label} ({number})" for number in itertools.count(1))
        return next(name for name in names if name not in taken)

    def best(self) -> Candidate | None:
        """Return the complete candidate with the highest mean, the earlier of equals; None if there is none."""
        complete = [candidate for candidate in self.everything() if candidate.complete]
        return max(complete, key=lambda candidate: candidate.mean, default=None)

    def everything(self) -> list[Candidate]:
        """Return all candidates in the order in which they were first scored, those of earlier sessions included."""
        found = {**self.known, **{candidate.label: candidate for candidate in self.candidates}}
        return list(found.values())

    def ran(self) -> None:
        """Note that a program has run on an example."""
        if self._on_run is not None:
            self._on_run()

    def on_evaluate_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Note which program DSPy begins to evaluate."""
        self._evaluated[call_id] = inputs.get("program")

    def on_evaluate_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        """Record the program that DSPy has evaluated, unless none of the examples is for validation."""
        program = self._evaluated.pop(call_id, None)
        if program is None or outputs is None or exception is not None:
            return
        scores = {example_id(example): _number(score) for example, _, score in outputs.results}
        if self._ids & scores.keys():
            self.add(program, scores, errors=sum(_failed(prediction) for _, prediction, _ in outputs.results))


def cleaned(program: dspy.Module) -> dspy.Module:
    """Return the program without what optimizers leave behind in it."""
    for predictor in program.predictors():
        predictor.traces, predictor.train = [], []
    # A compiled flag would hide the predictors from `set_lm`, from saving and from compiling again.
    program._compiled = False
    # DSPy leaves its tracing version of `forward` in a program that it has traced, bound to that very program.
    program.__dict__.pop("forward", None)
    return program


def same_program(one: dspy.Module, other: dspy.Module) -> bool:
    """Return whether two programs of one compilation show the same instructions and demonstrations."""
    return type(one) is type(other) and _state(one) == _state(other)


def _state(program: dspy.Module) -> Any:
    pool = getattr(program, "pool", None)  # of demonstrations that are chosen per question
    return json.dumps(program.dump_state(), sort_keys=True, default=str), pool


def _failed(prediction: Any) -> bool:
    """Return whether DSPy has put an empty prediction in place of one that ended in an error."""
    return isinstance(prediction, dspy.Prediction) and not prediction.keys()


def _number(score: Any) -> float:
    return float(getattr(score, "score", score) or 0.0)
