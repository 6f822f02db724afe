"""Demonstrations and instructions that a study tries: compiled, taken from artifacts, or written by an LM."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from experiments.pipeline.tuning.config import Candidates, TuneConfig
from experiments.pipeline.tuning.unseen import open_version
from optimizers.evaluating import instructions_of
from optimizers.examples import to_examples
from optimizers.teleprompters.task import Task
from optimizers.tuning.prompts import DEMOS, PRESENT, Prompts, demos_of, instruction_of, write_instructions
from programs.lms.calls.budget import BudgetExceeded
from signatures.common.costs import Costs

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
        queued: Settings to try first, after the program as it is: those of the artifacts, and each compiled program
            with the knobs as they are.
        notes: What the user should know, such as candidates that could not be made.
    """

    prompts: Prompts = field(default_factory=Prompts)
    queued: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def prepare(
    student: "dspy.Module",
    knobs: "Space",
    trainset: "Sequence[Question]",
    config: TuneConfig,
    *,
    connection: "Connection",
    say: Callable[[str], None],
    earlier: Mapping[str, float] | None = None,
) -> Prepared:
    """Return the candidates of a study, made on the LM of the running context.

    At most half of a budget is spent on them; what is not complete by then is left out, with a note.

    Args:
        knobs: The knobs that are searched, for settings of artifacts.
        trainset: Questions that demonstrations are made from. An optimizer that compares candidates of its own does so
            on a part of them: on the study's questions it would choose by those that are to be held out.
        say: Receives lines on the progress.
        earlier: What sessions that were cut off have spent on them: calls, tokens and usd.

    Raises:
        UserError: An artifact is of another program, or an optimizer cannot be used.
    """
    made = Prepared()
    for folder in config.candidates.artifacts:
        _from_artifact(student, knobs, folder, made)
    with _half(connection, earlier or {}):
        try:
            programs = _compiled(student, trainset, config, made, say)
            if config.candidates.instructions:
                _written(student, trainset, programs, config, made, say)
        except BudgetExceeded as spent:
            made.notes.append(f"Some candidates are missing: {spent}")
    return made


@contextlib.contextmanager
def _half(connection: "Connection", earlier: Mapping[str, float]) -> Iterator[None]:
    """Limit what the block spends, with what earlier sessions spent on the same, to a share of the budget."""
    budget = getattr(connection.lm, "budget", None)
    if budget is None or not budget.limited:
        yield
        return
    left = budget.left()
    own = {name: 0.0 if name == "seconds" else earlier.get(name, 0.0) for name in left}  # seconds are of a session
    share = {name: max(0.0, value * _SHARE - own[name]) for name, value in left.items()}
    with budget.within(**Costs(share).whole()):
        yield


def _from_artifact(student: "dspy.Module", knobs: "Space", folder: Any, made: Prepared) -> None:
    program, _ = open_version(student, folder)
    label = _unused(folder.resolve().name, made.prompts.demos)
    setting: dict[str, Any] = {}
    demos = demos_of(program)
    if demos != demos_of(student) and any(demos.values()):
        made.prompts.demos[label] = demos
        setting[DEMOS] = label
    setting |= _with_instructions(student, program, label, made)[0]
    for dimension in knobs.dimensions:
        value = getattr(program, dimension.name)
        setting[dimension.name] = value if dimension.contains(value) else knobs.present[dimension.name]
    made.queued.append(setting)


def _with_instructions(
    student: "dspy.Module", program: "dspy.Module", label: str, made: Prepared
) -> tuple[dict[str, Any], bool]:
    """Add the instructions of a program that are new; return the setting that chooses its own, and whether any was."""
    setting: dict[str, Any] = {}
    own, written = instructions_of(student), False
    for predictor, text in instructions_of(program).items():
        labels = made.prompts.instructions.setdefault(predictor, {})
        if text not in (own.get(predictor), *labels.values()):
            labels[_unused(label, labels)] = text
            written = True
        setting |= {instruction_of(predictor): known for known, other in labels.items() if other == text}
    return setting, written


def _unused(label: str, taken: Any) -> str:
    if label not in (PRESENT, *taken):
        return label
    return next(f"{label}-{number}" for number in range(2, 10_000) if f"{label}-{number}" not in taken)


def _compiled(
    student: "dspy.Module",
    trainset: "Sequence[Question]",
    config: TuneConfig,
    made: Prepared,
    say: Callable[[str], None],
) -> "list[dspy.Module]":
    """Add a set of demonstrations for each optimizer and seed; return the compiled programs."""
    from optimizers.teleprompters.compile import compile

    programs = []
    for label, optimizer, task in _tasks(student, trainset, config):
        say(f"Compile: {label}.")
        compiled = compile(student, task, optimizer=optimizer)
        if compiled.stopped:
            made.notes.append(f"{label} was ended early: {compiled.stopped}")
        if type(compiled.program) is not type(student):
            other = type(compiled.program).__name__
            made.notes.append(f"{label} makes a program of another kind ({other}), which is left out.")
            continue
        programs += _from_program(student, compiled.program, label, made)
    return programs


def _tasks(student: "dspy.Module", trainset: "Sequence[Question]", config: TuneConfig) -> "list[tuple[str, str, Task]]":
    """Return label, optimizer and task of each compilation."""
    from optimizers.teleprompters.compile import checked_task

    asked: Candidates = config.candidates
    writer = asked.prompt_lm
    tasks = []
    for optimizer in asked.optimizers:
        for number in range(asked.seeds):
            task = Task(
                trainset=to_examples(trainset),
                score=config.metric,
                accept=asked.accept,
                max_demos=asked.max_demos,
                seed=config.seed + number,
                threads=config.threads,
                prompt_lm=writer.lm if writer is not None else None,
                prompt_adapter=writer.adapter if writer is not None else None,
            )
            checked_task(student, task, optimizer)
            tasks.append((f"{optimizer}-{number + 1}", optimizer, task))
    return tasks


def _from_program(student: "dspy.Module", program: "dspy.Module", label: str, made: Prepared) -> "list[dspy.Module]":
    """Add what is new in a compiled program, and queue it as it is; return the program if its demonstrations are new.

    A small budget ends before a sampler has tried a candidate without changing half of the knobs, too.
    """
    setting: dict[str, Any] = {}
    demos, new = demos_of(program), []
    if demos not in [demos_of(student), *made.prompts.demos.values()]:
        made.prompts.demos[_unused(label, made.prompts.demos)] = demos
        new.append(program)
    for known, other in made.prompts.demos.items():
        if other == demos:
            setting[DEMOS] = known
    instructions, written = _with_instructions(student, program, label, made)
    if new or written:
        made.queued.append({**setting, **instructions})
    else:
        reason = (
            "they are those of another candidate" if any(demos.values()) else "no training question was good enough"
        )
        made.notes.append(f"{label} adds neither demonstrations nor instructions ({reason}).")
    return new


def _written(
    student: "dspy.Module",
    trainset: "Sequence[Question]",
    demonstrated: "list[dspy.Module]",
    config: TuneConfig,
    made: Prepared,
    say: Callable[[str], None],
) -> None:
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
