"""`verihop distill synthesize`: training examples from a teacher's trajectories."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli.distill.synthesis_options import Recipe, Teacher
from experiments.cli.distill.unused_options import refuse_unused, typed_in
from experiments.cli.shared import options
from experiments.cli.shared.console import emit, listed, next_step, note, resumable, say
from experiments.cli.shared.next_commands import training
from experiments.cli.shared.options import with_option_groups
from experiments.runs.specs import ProgramSpec, SynthesisSpec
from signatures.common.errors import UserError
from signatures.common.specs import Field

if TYPE_CHECKING:
    from experiments.pipeline.synthesis.synthesize import Synthesized


@dataclass(frozen=True, kw_only=True)
class SynthesizeOutput(options.Output):
    """Where the examples are written, and what is printed."""

    out: Annotated[Path, Field("Folder for examples.jsonl and manifest.json.", "--out -o")]


@with_option_groups
def synthesize(
    context: typer.Context,
    questions: Annotated[
        list[str],
        typer.Argument(help="DATASET=questions.jsonl, repeatable; `verihop data list` names data sets. Or world=..."),
    ],
    program: ProgramSpec,
    recipe: Recipe,
    teacher: Teacher,
    spec: SynthesisSpec,
    resuming: options.Resuming,
    limits: options.Limits,
    output: SynthesizeOutput,
) -> None:
    """Write training examples: a teacher runs a program, or a paper's recipe; what passes all filters is kept."""
    from experiments.pipeline.setup import with_artifact_defaults
    from experiments.pipeline.synthesis.opened import SynthesisRequest, open_synthesis

    program_config, teacher_config = with_artifact_defaults(program, teacher.for_threads(spec.threads))
    if teacher_config.id is None:
        raise UserError("Name the teacher: --teacher ID, any id that `verihop eval --lm` takes.")
    checked = options.named_lm(recipe.answers, "--answers-lm")
    named = bool(program_config.program or program_config.artifact)
    refuse_unused(typed_in(context), recipe, teacher_config.id, spec, program_is_named=named)
    request = SynthesisRequest(
        files=[_named_file(text) for text in questions],
        program=program_config,
        teacher=teacher_config,
        recipe=recipe.recipe,
        answers=None if checked is None else checked.called_as(teacher_config),
        grounding=recipe.grounding(),
        verification=recipe.verification(),
        **vars(spec),
    )
    opened = open_synthesis(request, limits.budget())
    for text in opened.notes:
        note(f"Note: {text}")
    with resumable():
        made = opened.run(output.out, resume=resuming.resume, progress=not output.quiet)
    if output.as_json:
        emit({"folder": str(output.out), "notes": opened.notes, **made.manifest})
        return
    _print(made)
    next_step(training(output.out))


def _named_file(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not equals or not name or not path:
        raise UserError(f"Name the data set of {text!r}: DATASET=questions.jsonl, e.g. hotpotqa=questions.jsonl.")
    return name, Path(path)


def _print(made: "Synthesized") -> None:
    manifest = made.manifest
    counts, rejected = manifest["counts"], manifest["rejected"]
    say(
        f"{counts['examples']} examples from {manifest['asked']} questions, {manifest['trajectories']} trajectories "
        f"({listed(counts['by_split'])})."
    )
    say(f"By skill: {listed(counts['by_skill'])}.")
    for kind, names in rejected.items():
        if names:
            say(f"Rejected {kind}: {listed(names)}.")
    if "kinds" in manifest:
        say(f"By kind: {listed(manifest['kinds'])}.")
    if manifest["refused_questions"]:
        say(f"Questions not used: {listed(manifest['refused_questions'])}.")
    if manifest["errors"]:
        note(f"Note: {manifest['errors']} questions ended in an error, the first: {manifest['first_error']}")
    say(f"Cost: {manifest['cost']['calls']:.0f} LM calls.")
    say(f"Written: {made.folder}")
