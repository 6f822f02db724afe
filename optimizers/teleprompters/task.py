"""What an optimizer is given, what it hands back, and the record that the catalog keeps of it."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dspy

from optimizers.evaluating import Outcome, evaluate_examples, example_id
from optimizers.examples import Score, graded_metric
from optimizers.teleprompters.recording import Candidate, Recording, same_program
from programs.parts.meter import record
from signatures.common.errors import UserError, one_line
from signatures.text_words import same_words
from signatures.types import Similarity

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
    on_candidate: Callable[[Candidate], None] | None = None
    on_run: Callable[[], None] | None = None
    known: Mapping[str, Candidate] = field(default_factory=dict)
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


def score_candidate(
    program: dspy.Module, task: Task, label: str, *, examples: Sequence[dspy.Example] = ()
) -> Candidate:
    """Score a program on the validation examples, or on those given of them, and record it.

    A candidate of an earlier session with the same label and prompts is taken over with its scores.

    Raises:
        BudgetExceeded: The budget is spent; the candidate is not recorded.
        UserError: It is the first candidate, and every example ended in an error.
    """
    known = task.recording.known.get(task.recording.name_for(label))
    if known is not None and known.complete and not examples and same_program(known.program, program):
        return task.recording.take_over(program, known, label)
    outcomes = evaluate_examples(
        program,
        examples or task.valset,
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


def check_splits(task: Task) -> None:
    """Raise UserError if an example is a test question, or is in training and validation set by id or by its words."""
    for examples in (task.trainset, task.valset):
        for example in examples:
            split = str(example.get("split") or "").strip()
            if is_test_split(split):
                raise UserError(
                    f"Question {example_id(example)!r} is of the split {one_line(split, 40)}: no optimizer may see it. "
                    "Choose questions of other splits to optimize on, and keep these to evaluate the result."
                )
    ids = {example_id(example) for example in task.trainset}
    texts = {same_words(example.question) for example in task.trainset}
    for example in task.valset:
        if example_id(example) in ids or same_words(example.question) in texts:
            raise UserError(
                f"Question {example_id(example)!r} is in the training set and in the validation set: candidates must "
                "be compared on questions that they have not seen. Leave it out of one of them."
            )
