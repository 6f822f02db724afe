"""Demonstrations and instructions that a study tries: compiled, taken from artifacts, or written by an LM."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from experiments.pipeline.tuning.config import Candidates, TuneConfig
from optimizers.tuning.prompts import DEMOS, PRESENT, Prompts, demos_of, instruction_of, instructions_of
from signatures.common.errors import UserError

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from optimizers.tuning.space import Space
    from programs.lms.connect import Connection

_SHARE = 0.5  # of a budget, at most, for what is tried; the rest is for trying it


@dataclass
class Prepared:
    """What a study tries beside knobs.

    Args:
        prompts: Candidates by label.
        queued: Settings to try first, after the program as it is: those of the artifacts, whole.
        notes: What the user should know, such as candidates that could not be made.
    """

    prompts: Prompts = field(default_factory=Prompts)
    queued: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def prepare(
    student: "dspy.Module",
    knobs: "Space",
    trainset: "Sequence[Question]",
    valset: "Sequence[Question]",
    config: TuneConfig,
    *,
    connection: "Connection",
    say: Callable[[str], None],
) -> Prepared:
    """Return the candidates of a study, made on the LM of the running context.

    At most half of a budget is spent on them; what is not complete by then is left out, with a note.

    Args:
        student: The program as it is.
        knobs: The knobs that are searched, for settings of artifacts.
        trainset: Questions that demonstrations are made from.
        valset: Questions of the study, on which some optimizers compare candidates of their own.
        config: Of the study.
        connection: The task LM.
        say: Receives lines on the progress.

    Raises:
        UserError: An artifact is of another program, or an optimizer cannot be used.
    """
    from programs.lms.calls.budget import BudgetExceeded

    made = Prepared()
    for folder in config.candidates.artifacts:
        _from_artifact(student, knobs, folder, made)
    with _half(connection):
        try:
            programs = _compiled(student, trainset, valset, config, made, say)
            if config.candidates.instructions:
                _written(student, trainset, programs, config, made, say)
        except BudgetExceeded as spent:
            made.notes.append(f"Some candidates are missing: {spent}")
    return made


@contextlib.contextmanager
def _half(connection: "Connection") -> Iterator[None]:
    """Limit what the block spends to a share of what the budget has left."""
    budget = getattr(connection.lm, "budget", None)
    if budget is None or not budget.limited:
        yield
        return
    spent = budget.spent
    left = {name: max(0.0, limit - spent[name]) for name, limit in budget.limits.items() if limit is not None}
    whole = {name: int(left[name] * _SHARE) for name in ("calls", "tokens") if name in left}
    with budget.within(**{name: value * _SHARE for name, value in left.items()} | whole):
        yield


def _from_artifact(student: "dspy.Module", knobs: "Space", folder: Any, made: Prepared) -> None:
    from programs.artifact import load, program_name, read_artifact

    name = program_name(student)
    if (found := read_artifact(folder).program) != name:
        raise UserError(f"{folder} contains the program {found}, the study is of {name}: name artifacts of {name}.")
    program = load(folder, getattr(student, "retrieve", None))
    label = _unused(folder.resolve().name, made.prompts.demos)
    setting: dict[str, Any] = {}
    demos = demos_of(program)
    if demos != demos_of(student) and any(demos.values()):
        made.prompts.demos[label] = demos
        setting[DEMOS] = label
    own = instructions_of(student)
    for predictor, text in instructions_of(program).items():
        labels = made.prompts.instructions.setdefault(predictor, {})
        if text not in (own.get(predictor), *labels.values()):
            labels[label] = text
        setting |= {instruction_of(predictor): known for known, other in labels.items() if other == text}
    for dimension in knobs.dimensions:
        value = getattr(program, dimension.name)
        setting[dimension.name] = value if dimension.contains(value) else knobs.present[dimension.name]
    made.queued.append(setting)


def _unused(label: str, taken: Any) -> str:
    if label not in (PRESENT, *taken):
        return label
    return next(f"{label}-{number}" for number in range(2, 10_000) if f"{label}-{number}" not in taken)


def _compiled(
    student: "dspy.Module",
    trainset: "Sequence[Question]",
    valset: "Sequence[Question]",
    config: TuneConfig,
    made: Prepared,
    say: Callable[[str], None],
) -> "list[dspy.Module]":
    """Add a set of demonstrations for each optimizer and seed; return the compiled programs."""
    from optimizers.examples import to_examples
    from optimizers.teleprompters.compile import compile
    from optimizers.teleprompters.task import Task

    asked: Candidates = config.candidates
    programs = []
    for optimizer in asked.optimizers:
        for number in range(asked.seeds):
            label = f"{optimizer}-{number + 1}"
            say(f"Compile demonstrations: {label}.")
            task = Task(
                trainset=to_examples(trainset),
                valset=to_examples(valset),
                score=config.metric,
                accept=asked.accept,
                max_demos=asked.max_demos,
                seed=config.seed + number,
                threads=config.threads,
            )
            compiled = compile(student, task, optimizer=optimizer)
            demos = demos_of(compiled.program)
            if compiled.stopped:
                made.notes.append(f"{label} was ended early: {compiled.stopped}")
            if demos in [demos_of(student), *made.prompts.demos.values()]:
                reason = "no training question was answered well enough" if not any(demos.values()) else "repeated"
                made.notes.append(f"{label} adds no demonstrations ({reason}).")
            else:
                made.prompts.demos[_unused(label, made.prompts.demos)] = demos
                programs.append(compiled.program)
            own = instructions_of(student)
            for predictor, text in instructions_of(compiled.program).items():
                labels = made.prompts.instructions.setdefault(predictor, {})
                if text not in (own.get(predictor), *labels.values()):
                    labels[_unused(label, labels)] = text
    return programs


def _written(
    student: "dspy.Module",
    trainset: "Sequence[Question]",
    demonstrated: "list[dspy.Module]",
    config: TuneConfig,
    made: Prepared,
    say: Callable[[str], None],
) -> None:
    """Add instructions that the prompt LM writes."""
    from optimizers.examples import to_examples
    from optimizers.tuning.instructions import write_instructions

    asked = config.candidates
    say(f"Write instructions: {asked.instructions} per predictor.")
    failed: list[str] = []
    with asked.prompt_lm.use() if asked.prompt_lm is not None else contextlib.nullcontext():
        found = write_instructions(
            student,
            to_examples(trainset),
            demonstrated,
            count=asked.instructions,
            seed=config.seed,
            failed=failed.append,
        )
    for predictor, texts in found.items():
        labels = made.prompts.instructions.setdefault(predictor, {})
        for number, text in enumerate(texts, start=1):
            if text not in labels.values():
                labels[_unused(f"written-{number}", labels)] = text
    if failed:
        made.notes.append(f"{len(failed)} instructions could not be written, e.g. {failed[0]}.")
