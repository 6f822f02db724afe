"""`verihop distill synthesize`: training examples from a teacher's trajectories."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli.distill.synthesis_options import Filters, Questions, Recipe, Student, Teacher, names_in
from experiments.cli.distill.unused_options import refuse_unused, typed_in
from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, note, resumable, say
from experiments.cli.shared.next_commands import command, new_path
from experiments.cli.shared.options import with_option_groups
from experiments.runs.specs import ProgramSpec
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from experiments.pipeline.synthesis.synthesize import Synthesized


@dataclass(frozen=True, kw_only=True)
class SynthesizeOutput(options.Output):
    """Where the examples are written, and what is printed."""

    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for examples.jsonl and manifest.json.")]


@with_option_groups
def synthesize(
    context: typer.Context,
    program: ProgramSpec,
    recipe: Recipe,
    teacher: Teacher,
    student: Student,
    selection: Questions,
    filters: Filters,
    execution: options.SeededExecution,
    limits: options.Limits,
    output: SynthesizeOutput,
) -> None:
    """Write training examples: a teacher runs a program, or a paper's recipe; what passes all filters is kept."""
    from experiments.pipeline.setup import with_artifact_defaults
    from experiments.pipeline.synthesis.opened import SynthesisRequest, open_synthesis

    program_config, teacher_config = with_artifact_defaults(program, teacher.for_threads(execution.threads))
    if teacher_config.id is None:
        raise UserError("Name the teacher: --teacher ID, any id that `verihop eval --lm` takes.")
    checked = options.named_lm(recipe.answers, "--answers-lm")
    named = bool(program_config.program or program_config.artifact)
    refuse_unused(typed_in(context), recipe, teacher_config.id, filters, program_is_named=named)
    request = SynthesisRequest(
        files=[_named_file(text) for text in selection.questions],
        program=program_config,
        teacher=teacher_config,
        recipe=recipe.recipe,
        answers=None if checked is None else checked.called_as(teacher_config),
        grounding=recipe.grounding(),
        verification=recipe.verification(),
        student=student.student,
        prompts=student.prompts,
        exclude=selection.exclude or (),
        passages=selection.passages,
        split=selection.split,
        limit=selection.limit,
        metric=filters.metric,
        accept=filters.accept,
        predictors=names_in(filters.predictors),
        validation=filters.validation,
        seed=execution.seed,
        threads=execution.threads,
    )
    opened = open_synthesis(request, limits.budget())
    for text in opened.notes:
        note(f"Note: {text}")
    with resumable():
        made = opened.run(output.out, resume=execution.resume, progress=not output.quiet)
    if output.as_json:
        emit({"folder": str(output.out), "notes": opened.notes, **made.manifest})
        return
    _print(made)
    next_step(
        command(
            "verihop", "distill", "train", output.out, "-o", new_path(output.out.with_name(f"{output.out.name}-lm"))
        )
    )


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
    if "kinds" in manifest:
        say(f"By kind: {_listed(manifest['kinds'])}.")
    if manifest["refused_questions"]:
        say(f"Questions not used: {_listed(manifest['refused_questions'])}.")
    if manifest["errors"]:
        note(f"Note: {manifest['errors']} questions ended in an error, the first: {manifest['first_error']}")
    say(f"Cost: {manifest['cost']['calls']:.0f} LM calls.")
    say(f"Written: {made.folder}")


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"
