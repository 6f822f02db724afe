"""What an optimizer is given, what it returns, and the record that the catalog keeps of it.

DSPy's optimizers hand nothing back before their end. Here every program that is scored on validation examples becomes
a `ScoredProgram` at once, by `score_candidate` or through DSPy's callback for its own `Evaluate`, so that nothing of it
is lost when the optimizer is stopped.
"""

import itertools
import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dspy
from dspy.utils.callback import BaseCallback

from optimizers.evaluating import Outcome, evaluate_examples
from optimizers.examples import Score, asked_words, different, example_id, graded_metric
from optimizers.teleprompters.dspy_private import forget_compilation
from programs.parts.meter import Meter, record
from signatures.common.errors import UserError, one_line
from signatures.types import Similarity


@dataclass(frozen=True)
class ScoredProgram:
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
        known: Mapping[str, ScoredProgram] | None = None,
        on_candidate: Callable[[ScoredProgram], None] | None = None,
        on_run: Callable[[], None] | None = None,
    ):
        self.candidates: list[ScoredProgram] = []
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
    ) -> ScoredProgram:
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
            candidate = ScoredProgram(copy, of_validation, calls, name, complete, self.lm, errors)
            self.candidates.append(candidate)
        if self._on_candidate is not None:
            self._on_candidate(candidate)
        return candidate

    def take_over(self, program: dspy.Module, known: ScoredProgram, label: str | None) -> ScoredProgram:
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

    def best(self) -> ScoredProgram | None:
        """Return the complete candidate with the highest mean, the earlier of equals; None if there is none."""
        complete = [candidate for candidate in self.everything() if candidate.complete]
        return max(complete, key=lambda candidate: candidate.mean, default=None)

    def everything(self) -> list[ScoredProgram]:
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
    forget_compilation(program)
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


Feedback = Callable[..., Any]
_TEST = re.compile(r"(?<![^\W_])test", re.IGNORECASE)  # at the start of a word: testset, wiki_test, not latest


@dataclass(frozen=True)
class Task:
    """The input of an optimizer.

    Args:
        trainset: Examples that demonstrations are made from; never those that a result is reported on.
        valset: Examples that candidates are compared on; optimizers without candidates ignore it. Without any,
            `compile` holds out a part of the trainset where candidates are compared.
        score: The metric, in [0, 1] per example; None where it is undefined.
        accept: Lowest score with which an example may become a demonstration.
        max_demos: Maximum number of demonstrations per predictor.
        seed: Seed of the order of examples and of every random choice, at least 0.
        threads: Examples in parallel.
        teacher: The program that demonstrates; the student if None.
        teacher_lm: The LM that the teacher runs on; the task LM if None.
        teacher_adapter: The adapter of `teacher_lm`, whose context may be another; that of the task LM if None.
        prompt_lm: The LM that writes instructions; the task LM if None. Optimizers that write none ignore it.
        prompt_adapter: The adapter of `prompt_lm`; that of the task LM if None.
        feedback: A metric that returns textual feedback in the form the optimizer expects; other optimizers ignore it.
        similarity: Compares questions for demonstrations that are chosen per question; by default that of the student,
            else that of the embedded embedder.
        options: Arguments specific to the optimizer, as JSON values; others are rejected. `compile` adds the defaults.
        progress: Called with (examples tried, demonstrations accepted) after each example.
        on_candidate: Called with each candidate as soon as it is scored.
        on_run: Called after each run of a program on an example, from several threads.
        known: Candidates of earlier sessions by label; an optimizer may take their scores over.
        ended_by: What else than a spent budget ends the work early with the best program so far, as KeyboardInterrupt.
        recording: What the optimizer has tried and scored; `compile` makes it.

    Raises:
        UserError: The seed is negative.
    """

    trainset: Sequence[dspy.Example]
    score: Score
    valset: Sequence[dspy.Example] = ()
    accept: float = 1.0
    max_demos: int = 4
    seed: int = 0
    threads: int = 8
    teacher: dspy.Module | None = None
    teacher_lm: dspy.LM | None = None
    teacher_adapter: Any = None
    prompt_lm: dspy.LM | None = None
    prompt_adapter: Any = None
    feedback: Feedback | None = None
    similarity: Similarity | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    progress: Callable[[int, int], None] | None = None
    on_candidate: Callable[[ScoredProgram], None] | None = None
    on_run: Callable[[], None] | None = None
    known: Mapping[str, ScoredProgram] = field(default_factory=dict)
    ended_by: tuple[type[BaseException], ...] = ()
    recording: Recording = field(default_factory=Recording)

    def __post_init__(self) -> None:
        check_seed(self.seed)

    def teacher_settings(self) -> dict[str, Any]:
        """Return the arguments of `dspy.context` in which the teacher runs."""
        return _context(self.teacher_lm, self.teacher_adapter)

    def prompt_settings(self) -> dict[str, Any]:
        """Return the arguments of `dspy.context` in which instructions are written."""
        return _context(self.prompt_lm, self.prompt_adapter)


def check_seed(seed: int) -> None:
    """Raise UserError if a seed is negative: `random` takes it for the same positive one, and NumPy refuses it."""
    if seed < 0:
        raise UserError(f"A seed must be at least 0, got {seed}.")


def _context(lm: dspy.LM | None, adapter: Any) -> dict[str, Any]:
    return {} if lm is None else {"lm": lm, **({"adapter": adapter} if adapter is not None else {})}


def score_candidate(program: dspy.Module, task: Task, label: str) -> ScoredProgram:
    """Score a program on the validation examples and record it.

    A candidate of an earlier session with the same label and prompts is taken over with its scores.

    Raises:
        BudgetExceeded: The budget is spent; the candidate is not recorded.
        UserError: It is the first candidate, and every example ended in an error.
    """
    known = task.recording.known.get(task.recording.name_for(label))
    if known is not None and known.complete and same_program(known.program, program):
        return task.recording.take_over(program, known, label)
    outcomes = evaluate_examples(
        program,
        task.valset,
        graded_metric(task.score),
        threads=task.threads,
        report=lambda outcome: _count(task.recording, outcome),
    )
    failed = [outcome.error for outcome in outcomes if outcome.error is not None]
    if failed and len(failed) == len(outcomes) and not task.recording.candidates:
        first = one_line(failed[0])
        said = first.partition(": ")[2]
        raise UserError(f"All {len(failed)} validation examples ended in an error; the first: {first}").quoting(said)
    scores = {outcome.id: outcome.score or 0.0 for outcome in outcomes}
    return task.recording.add(program, scores, label, errors=len(failed))


def _count(recording: Recording, outcome: Outcome) -> None:
    """Add what a question has cost to the meter of the compilation: it was counted in one of its own."""
    record(**outcome.costs)
    recording.ran()


@dataclass(frozen=True)
class Runs:
    """How much work an optimizer asks for, at most.

    Args:
        student: Runs of the program on an example, on the task LM.
        teacher: Runs of the teacher on an example, on the teacher LM.
        prompt_calls: Calls of the LM that writes instructions.
    """

    student: int = 0
    teacher: int = 0
    prompt_calls: int = 0

    def __add__(self, other: "Runs") -> "Runs":
        return Runs(self.student + other.student, self.teacher + other.teacher, self.prompt_calls + other.prompt_calls)

    def total(self) -> int:
        """Return runs and calls together."""
        return self.student + self.teacher + self.prompt_calls


@dataclass(frozen=True)
class Option:
    """An argument specific to an optimizer.

    Args:
        default: What it is if it is not named; its type is the type of the option, unless `kind` names one.
        help: What it is, as a sentence.
        low: Lowest number allowed.
        high: Highest number allowed.
        choices: The only values allowed, if any.
        kind: The type, for a default of None.
    """

    default: Any
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[Any, ...] = ()
    kind: type | None = None

    def check(self, name: str, value: Any) -> None:
        """Raise UserError unless `value` is allowed."""
        if value is None and self.default is None:
            return
        kind = self.kind or type(self.default)
        fits = isinstance(value, kind) or (kind is float and isinstance(value, int))
        if not fits or (isinstance(value, bool) and kind is not bool):
            raise UserError(f"Option {name} must be {kind.__name__}, got {one_line(repr(value), 60)}.")
        if self.choices and value not in self.choices:
            raise UserError(f"Option {name} must be one of {', '.join(map(str, self.choices))}, got {value!r}.")
        below = self.low is not None and value < self.low
        if below or (self.high is not None and value > self.high):
            least = "" if self.low is None else f" at least {self.low:g}"
            most = "" if self.high is None else f" at most {self.high:g}"
            raise UserError(f"Option {name} must be{least}{' and' if least and most else ''}{most}, got {value:g}.")


@dataclass(frozen=True)
class Optimizer:
    """An entry of the catalog.

    Args:
        run: Returns the optimized copy of a student. What it scores and tries it notes in `task.recording`.
        summary: What it does, in a sentence.
        source: URL of its publication or documentation.
        fits: Returns why it does not fit a program, None if it does. The task is None while only the program is known.
        estimate: Returns how much work it asks for.
        options: Its arguments by name.
        compares: Whether it compares candidates, and so needs validation examples.
        needs: Further needs, for the listing: "labels", "feedback", "weights".
    """

    run: Callable[[dspy.Module, Task], dspy.Module]
    summary: str
    source: str
    fits: Callable[[dspy.Module, Task | None], str | None]
    estimate: Callable[[dspy.Module, Task], Runs]
    options: Mapping[str, Option] = field(default_factory=dict)
    compares: bool = False
    needs: tuple[str, ...] = ()


def always_fits(student: dspy.Module, task: Task | None) -> str | None:
    """Return None: the optimizer fits every program that has a predictor."""
    return None if student.predictors() else "the program has no predictor of its own"


def resolved_options(name: str, known: Mapping[str, Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of every option of an optimizer.

    Raises:
        UserError: The optimizer has no such option, or a value is not allowed.
    """
    for option, value in given.items():
        if option not in known:
            raise UserError(f"Optimizer {name} has no option {option!r}. It has: {', '.join(known) or 'none'}.")
        known[option].check(option, value)
    return {option: given.get(option, record.default) for option, record in known.items()}


def is_test_split(split: str) -> bool:
    """Return whether a word of a split's name begins with test, so that no optimizer may see its questions."""
    return _TEST.search(split) is not None


def check_splits(trainset: Sequence[dspy.Example], valset: Sequence[dspy.Example] = ()) -> None:
    """Raise UserError if an example is a test question, or is in training and validation set by id or by its words."""
    for example in (*trainset, *valset):
        split = str(example.get("split") or "").strip()
        if is_test_split(split):
            raise UserError(
                f"Question {example_id(example)!r} is of the split {one_line(split, 40)}: no optimizer may see it. "
                "Choose questions of other splits to optimize on, and keep these to evaluate the result."
            )
    ids = {example_id(example) for example in trainset}
    texts = {asked_words(example) for example in trainset}
    for example in valset:
        if example_id(example) in ids or asked_words(example) in texts:
            raise UserError(
                f"Question {example_id(example)!r} is in the training set and in the validation set: candidates must "
                "be compared on questions that they have not seen. Leave it out of one of them."
            )


def training_questions(examples: Sequence[dspy.Example]) -> list[dspy.Example]:
    """Return questions to fit something on, of those of the same words the first.

    Raises:
        UserError: One is of a test split, or two have one id.
    """
    check_splits(examples)
    if len({example_id(example) for example in examples}) < len(examples):
        raise UserError("Two training questions have one id: give every question a different id.")
    return different(examples)
