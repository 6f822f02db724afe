"""`verihop distill synthesize`: training examples from a teacher's trajectories."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, note, resumable, say
from experiments.cli.shared.next_commands import command
from experiments.cli.shared.option_groups import with_option_groups
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from experiments.pipeline.synthesis.synthesize import Synthesized


@dataclass(frozen=True)
class Teacher(options.LM):
    """The LM that writes the trajectories, and how it is called."""

    PANEL: ClassVar[str] = "Teacher"
    lm: Annotated[
        str | None,
        typer.Option(
            "--teacher",
            help="LM that writes the trajectories: any id that --lm of other commands takes; by default that of "
            "--artifact.",
            show_default=False,
        ),
    ] = None


@dataclass(frozen=True)
class StudentOptions:
    """Whom the examples are for."""

    PANEL: ClassVar[str] = "Student"
    student: Annotated[
        str,
        typer.Option(help="LM to train, whose prompts are rendered: embedded or another id, or a form, json or chat."),
    ] = "embedded"
    prompts: Annotated[
        str,
        typer.Option(
            help="Prompts of the student: plain (no demonstrations, the instructions of the uncompiled program) or "
            "compiled (those of --artifact)."
        ),
    ] = "plain"


@dataclass(frozen=True)
class Questions(options.Selection):
    """Which questions are asked."""

    exclude: Annotated[
        list[Path] | None,
        typer.Option(
            help="questions.jsonl of an evaluation, repeatable: its questions, and questions with its gold passages, "
            "are not used.",
            show_default=False,
        ),
    ] = None
    passages: Annotated[
        Path | None,
        typer.Option(help="passages.jsonl of the questions; --exclude then compares texts, too.", show_default=False),
    ] = None


@dataclass(frozen=True)
class Filters:
    """Which trajectories are kept."""

    PANEL: ClassVar[str] = "Filters"
    metric: Annotated[str, typer.Option(help="Metric of the final answer.")] = "em"
    accept: Annotated[float, typer.Option(min=0.001, max=1, help="Lowest score of an answer that is right.")] = 1.0
    predictors: Annotated[
        str, typer.Option(help="Only calls of these predictors, separated by commas; by default all.")
    ] = ""
    validation: Annotated[
        float, typer.Option(min=0, max=0.9, help="Share of the questions held back to measure the loss.")
    ] = 0.1


@dataclass(frozen=True, kw_only=True)
class Result(options.Output):
    """Where the examples are written, and what is printed."""

    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for examples.jsonl and manifest.json.")]


@with_option_groups
def synthesize(
    questions: Annotated[
        list[str],
        typer.Argument(help="DATASET=questions.jsonl, repeatable; `verihop data list` names data sets. Or world=..."),
    ],
    program: options.AnyProgram,
    teacher: Teacher,
    student: StudentOptions,
    selection: Questions,
    filters: Filters,
    execution: options.SeededExecution,
    limits: options.Limits,
    result: Result,
) -> None:
    """Write training examples: a teacher runs a program, and calls of trajectories that pass all filters are kept."""
    from experiments.pipeline import setup
    from experiments.pipeline.synthesis.opened import SynthesisRequest, open_synthesis

    program_config, teacher_config = setup.with_artifact_defaults(program.config(), teacher.config(execution.threads))
    if teacher_config.id is None:
        raise UserError("Name the teacher: --teacher ID, any id that `verihop eval --lm` takes.")
    request = SynthesisRequest(
        files=[_named_file(text) for text in questions],
        program=program_config,
        teacher=teacher_config,
        student=student.student,
        prompts=student.prompts,
        exclude=selection.exclude or (),
        passages=selection.passages,
        split=selection.split,
        limit=selection.limit,
        metric=filters.metric,
        accept=filters.accept,
        predictors=[name.strip() for name in filters.predictors.split(",") if name.strip()],
        validation=filters.validation,
        seed=execution.seed,
        threads=execution.threads,
    )
    opened = open_synthesis(request, limits.budget())
    for text in opened.notes:
        note(f"Note: {text}")
    with resumable():
        made = opened.run(result.out, resume=execution.resume, progress=not result.quiet)
    if result.as_json:
        emit({"folder": str(result.out), "notes": opened.notes, **made.manifest})
        return
    _print(made)
    next_step(command("verihop", "distill", "train", result.out))


def _named_file(text: str) -> tuple[str, Path]:
    """Return data set and path of an argument DATASET=PATH."""
    name, equals, path = text.partition("=")
    if not equals or not name or not path:
        raise UserError(f"Name the data set of {text!r}: DATASET=questions.jsonl, e.g. hotpotqa=questions.jsonl.")
    return name, Path(path)


def _print(made: "Synthesized") -> None:
    manifest = made.manifest
    counts, rejected = manifest["counts"], manifest["rejected"]
    say(
        f"{counts['examples']} examples from {manifest['asked']} questions, {manifest['trajectories']} trajectories "
        f"({_listed(counts['by_split'])})."
    )
    say(f"By skill: {_listed(counts['by_skill'])}.")
    for kind, names in rejected.items():
        if names:
            say(f"Rejected {kind}: {_listed(names)}.")
    if manifest["refused_questions"]:
        say(f"Questions not used: {_listed(manifest['refused_questions'])}.")
    if manifest["errors"]:
        note(f"Note: {manifest['errors']} questions ended in an error, the first: {manifest['first_error']}")
    say(f"Cost: {manifest['cost']['calls']:.0f} LM calls.")
    say(f"Written: {made.folder}")


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"
