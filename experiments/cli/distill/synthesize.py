"""`verihop distill synthesize`: training examples from a teacher's trajectories."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, listed, next_step, note, resumable, say
from experiments.cli.shared.next_commands import training
from experiments.cli.shared.options import options_of, with_option_groups
from experiments.cli.shared.settings.known import OF_MODEL
from experiments.runs.specs import Filters, ProgramSpec, SynthesisSpec
from optimizers.distill.specs import GroundingSettings, VerificationSettings
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError
from signatures.common.specs import Field

if TYPE_CHECKING:
    from experiments.pipeline.synthesis.synthesize import Synthesized

_GROUNDING, _VERIFICATION = (
    [one.name for one in options_of(each)] for each in (GroundingSettings, VerificationSettings)
)
_RIGHT = ("metric", "accept")


@dataclass(frozen=True)
class Teacher(LMSpec):
    """The LM that writes the trajectories, and how it is called."""

    PANEL: ClassVar[str] = "Teacher"
    NO_SETTINGS: ClassVar[frozenset[str]] = frozenset({"id", *OF_MODEL})  # those are of the LM that answers
    id: Annotated[
        str | None,
        Field(
            "LM that writes the replies: any id that --lm of other commands takes; by default that of "
            "--artifact. gold asks no LM and takes gold annotations.",
            "--teacher",
            decides=True,
        ),
    ] = None


@dataclass(frozen=True)
class Recipe:
    """What is made of a question."""

    PANEL: ClassVar[str] = "Recipe"
    recipe: Annotated[
        str,
        Field(
            "program: every predictor call of --program. genground: grounding of drafts in noisy passages. "
            "cov_rag: answers with citations, and verification of right and wrong ones."
        ),
    ] = "program"
    answers_lm: Annotated[
        str | None,
        Field("LM whose answers are checked: GenGround's drafts, CoV-RAG's seed model; by default the teacher."),
    ] = None
    answers_api_base: Annotated[str | None, Field("Base URL of the server of --answers-lm.")] = None
    answers_api_key_env: Annotated[
        str | None, Field("Environment variable with the API key of --answers-api-base.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Session(options.Resuming, options.Limits, options.Output):
    """What this run may cost, whether it continues with interrupted work, and what it prints."""


@with_option_groups
def synthesize(
    context: typer.Context,
    questions: Annotated[
        list[str],
        typer.Argument(help="DATASET=questions.jsonl, repeatable; `verihop data list` names data sets. Or world=..."),
    ],
    program: ProgramSpec,
    recipe: Recipe,
    grounding: GroundingSettings,
    verification: VerificationSettings,
    teacher: Teacher,
    spec: SynthesisSpec,
    session: Session,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for examples.jsonl and manifest.json.", rich_help_panel="Output")
    ],
) -> None:
    """Write training examples: a teacher runs a program, or a paper's recipe; what passes all filters is kept."""
    from experiments.pipeline.setup import other_lm, with_artifact_defaults
    from experiments.pipeline.synthesis.opened import SynthesisRequest, open_synthesis

    program_config, teacher_config = with_artifact_defaults(program, teacher.for_threads(spec.threads))
    if teacher_config.id is None:
        raise UserError("Name the teacher: --teacher ID, any id that `verihop eval --lm` takes.")
    checked = other_lm(recipe, "answers_lm")
    named = bool(program_config.program or program_config.artifact)
    typed = options.typed_in(context)
    for name, why in _unused(recipe, verification, teacher_config.id, spec, program_is_named=named):
        if name in typed:
            raise UserError(f"{typed[name]} does nothing {why}: leave it out.")
    request = SynthesisRequest(
        files=[_named_file(text) for text in questions],
        program=program_config,
        teacher=teacher_config,
        recipe=recipe.recipe,
        answers=checked and checked.called_as(teacher_config),
        grounding=grounding,
        verification=verification,
        **vars(spec),
    )
    opened = open_synthesis(request, session.budget())
    for text in opened.notes:
        note(f"Note: {text}")
    with resumable():
        made = opened.run(out, resume=session.resume, progress=not session.quiet)
    if session.as_json:
        emit({"folder": str(out), "notes": opened.notes, **made.manifest})
        return
    _print(made)
    next_step(training(out))


def _unused(
    recipe: Recipe, verification: VerificationSettings, teacher: str, filters: Filters, *, program_is_named: bool
) -> Iterator[tuple[str, str]]:
    from experiments.pipeline.synthesis.synthesize import GOLD_TEACHER

    if teacher == GOLD_TEACHER:
        asks_none = "with --teacher gold, which asks no LM and writes right replies"
        of_teacher = (one.name for one in fields(Teacher) if one.name != "id")
        for name in (*_GROUNDING, *_VERIFICATION, *_RIGHT, "gold_read", *of_teacher):
            yield name, asks_none
        if program_is_named and filters.predictors:
            yield "recipe", "with --teacher gold where program and --predictors are named, which it would choose"
        return
    if recipe.recipe != "genground":
        for name in _GROUNDING:
            yield name, "without --recipe genground"
    if recipe.recipe != "cov_rag":
        for name in _VERIFICATION:
            yield name, "without --recipe cov_rag"
    else:
        for name in _RIGHT:
            yield name, "with --recipe cov_rag, which learns from right and wrong responses"
        if not verification.negatives:
            yield "means", "with --negatives 0"
        if verification.labels == "gold":
            yield "show_gold", "with --verdicts gold: the teacher verifies nothing"
        if verification.labels == "teacher":
            yield "strict", "with --verdicts teacher: gold judges nothing"
    if recipe.recipe != "program":
        yield "predictors", f"with --recipe {recipe.recipe}, which decides what is learnt"
        yield "gold_read", f"with --recipe {recipe.recipe}, which keeps no trajectories of the program"


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
