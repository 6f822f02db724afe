"""`verihop distill synthesize`: training examples from a teacher's trajectories."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeVar

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, listed, next_step, note, resumable, say
from experiments.cli.shared.next_commands import training
from experiments.cli.shared.options import with_option_groups
from experiments.cli.shared.settings.known import OF_MODEL
from experiments.runs.specs import Filters, ProgramSpec, SynthesisSpec
from programs.lms.spec import UNNAMED, LMSpec
from signatures.common.errors import UserError, unknown
from signatures.common.specs import Field, Range

if TYPE_CHECKING:
    from experiments.pipeline.synthesis.synthesize import Synthesized
    from optimizers.distill.cov_rag import VerificationSettings
    from optimizers.distill.genground import GroundingSettings

Chosen = TypeVar("Chosen", bound=str)
_GROUNDING = ("batch_passages", "empty_share")
_VERIFICATION = ("answer_share", "negatives", "means", "verdicts", "show_gold", "strict", "n_references")
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
    answers: Annotated[
        LMSpec,
        options.other_lm(
            "answers_",
            "LM whose answers are checked: GenGround's drafts, CoV-RAG's seed model; by default the teacher.",
            "the server of --answers-lm",
            "with the API key of --answers-api-base",
        ),
    ] = UNNAMED
    batch_passages: Annotated[
        int, Range(1, 20), Field("genground: passages in the student's prompt, the gold one included.")
    ] = 3
    empty_share: Annotated[
        float, Range(0, 1), Field("genground: share of questions with an example of noise alone, too (paper: none).")
    ] = 0.0
    answer_share: Annotated[
        float, Range(0, 1), Field("cov_rag: share of the questions that teach to answer (paper: half).")
    ] = 0.5
    negatives: Annotated[
        int, Range(0, 20), Field("cov_rag: wrong responses added per question that teaches to verify.")
    ] = 1
    means: Annotated[str, Field("cov_rag: how wrong responses are made, in turn, separated by commas.")] = (
        "repetition,citations,retrieval,query"
    )
    verdicts: Annotated[
        str,
        Field(
            "cov_rag: scores and judgements from gold, teacher, or both (gold, and the teacher's revised question "
            "where gold has none)."
        ),
    ] = "both"
    show_gold: Annotated[bool, Field("cov_rag: the teacher sees the gold answers when it verifies.", "--show-gold")] = (
        False
    )
    strict: Annotated[
        bool, Field("cov_rag: wrong citations and repetition make a right response false.", "--strict")
    ] = False
    n_references: Annotated[int, Range(1, 20), Field("cov_rag: references of each response (paper: 5).")] = 5

    def grounding(self) -> "GroundingSettings":
        """Return the settings of the recipe genground."""
        from optimizers.distill.genground import GroundingSettings

        return GroundingSettings(batch_size=self.batch_passages, empty_share=self.empty_share)

    def verification(self) -> "VerificationSettings":
        """Return the settings of the recipe cov_rag."""
        from optimizers.distill.cov_rag import LABELS, VerificationSettings
        from optimizers.distill.negatives import MEANS

        return VerificationSettings(
            answer_share=self.answer_share,
            negatives=self.negatives,
            means=[_one_of(MEANS, name, "means of making wrong responses") for name in options.names(self.means)],
            labels=_one_of(LABELS, self.verdicts, "verdicts"),
            show_gold=self.show_gold,
            strict=self.strict,
            k=self.n_references,
        )


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
    output: options.Output,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for examples.jsonl and manifest.json.", rich_help_panel="Output")
    ],
) -> None:
    """Write training examples: a teacher runs a program, or a paper's recipe; what passes all filters is kept."""
    from experiments.pipeline.setup import with_artifact_defaults
    from experiments.pipeline.synthesis.opened import SynthesisRequest, open_synthesis

    program_config, teacher_config = with_artifact_defaults(program, teacher.for_threads(spec.threads))
    if teacher_config.id is None:
        raise UserError("Name the teacher: --teacher ID, any id that `verihop eval --lm` takes.")
    checked = options.named_lm(recipe.answers, "--answers-lm")
    named = bool(program_config.program or program_config.artifact)
    typed = options.typed_in(context)
    for name, why in _unused(recipe, teacher_config.id, spec, program_is_named=named):
        if name in typed:
            raise UserError(f"{typed[name]} does nothing {why}: leave it out.")
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
        made = opened.run(out, resume=resuming.resume, progress=not output.quiet)
    if output.as_json:
        emit({"folder": str(out), "notes": opened.notes, **made.manifest})
        return
    _print(made)
    next_step(training(out))


def _one_of(choices: tuple[Chosen, ...], name: str, kind: str) -> Chosen:
    for choice in choices:
        if choice == name:
            return choice
    raise unknown(kind, name, choices)


def _unused(recipe: Recipe, teacher: str, filters: Filters, *, program_is_named: bool) -> Iterator[tuple[str, str]]:
    from experiments.pipeline.synthesis.synthesize import GOLD_TEACHER

    if teacher == GOLD_TEACHER:
        asks_none = "with --teacher gold, which asks no LM and writes right replies"
        of_teacher = (one.name for one in fields(Teacher) if one.name != "id")
        for name in (*_GROUNDING, *_VERIFICATION, *_RIGHT, *of_teacher):
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
        if not recipe.negatives:
            yield "means", "with --negatives 0"
        if recipe.verdicts == "gold":
            yield "show_gold", "with --verdicts gold: the teacher verifies nothing"
        if recipe.verdicts == "teacher":
            yield "strict", "with --verdicts teacher: gold judges nothing"
    if recipe.recipe != "program":
        yield "predictors", f"with --recipe {recipe.recipe}, which decides what is learnt"


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
