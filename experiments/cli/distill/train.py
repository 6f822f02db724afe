"""`verihop distill train`: train a small LM on examples."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, note, resumable, say
from experiments.cli.shared.next_commands import asking
from experiments.cli.shared.options import with_option_groups
from experiments.runs.specs import SENTENCES, ProgramSpec, Retrieval, Selection
from optimizers.distill.training.settings import Machine, Measuring, Method, Schedule, make_settings
from signatures.common.errors import UserError
from signatures.common.specs import Field, Range, fields_of, part_of

if TYPE_CHECKING:
    from experiments.pipeline.training.program_scores import ProgramScores


@dataclass(frozen=True)
class Answering:
    """What is answered of the validation examples."""

    PANEL: ClassVar[str] = "Validation"
    metric_examples: Annotated[
        int, Range(0), Field("Examples of each skill answered to get EM and F1; 0 for the loss alone.")
    ] = 20


@dataclass(frozen=True)
class ProgramValidation:
    """A program that is asked at each measurement."""

    PANEL: ClassVar[str] = "Validation by a program"
    program: Annotated[
        str | None,
        Field(
            "Program that is asked questions at each measurement: program_em and program_f1, also to keep the "
            "best weights by."
        ),
    ] = None
    questions: Annotated[
        Path | None, Field("questions.jsonl that the program is asked; no training example may ask one of them.")
    ] = None
    split: Annotated[str | None, fields_of(Selection)["split"].field] = None
    limit: Annotated[
        int | None, Range(1), Field("Ask only N questions, drawn by a hash of their ids; by default 50.")
    ] = None
    index: Annotated[Path | None, fields_of(Retrieval)["index"].field] = None
    preset: Annotated[str | None, Field("Preset of --program; by default small, if it has one.")] = None
    knobs: Annotated[
        Mapping[str, Any],
        Field("A knob of --program as name=value, repeatable.", "--set", form=("name=value", "k=4")),
    ] = field(default_factory=dict)
    retriever: Annotated[str | None, fields_of(Retrieval)["retriever"].field] = None
    rerank: Annotated[str | None, fields_of(Retrieval)["rerank"].field] = None
    sentences: Annotated[int | None, SENTENCES, fields_of(Retrieval)["sentences"].field] = None

    def scores(self, best: str | None) -> "ProgramScores | None":
        """Return what asks the program; None without one.

        Args:
            best: Metric by which the best weights are kept.

        Raises:
            UserError: Program or questions are missing beside other options, or the file is missing or broken.
        """
        needed = best is not None and best.startswith("program_")
        if not needed and self == ProgramValidation():
            return None
        if self.program is None or self.questions is None:
            raise UserError(
                "To measure a program while an LM is trained, name it and its questions: --program, --questions."
            )
        from experiments.pipeline.setup import open_questions
        from experiments.pipeline.training.program_scores import ProgramScores

        asked = open_questions(self.questions, split=self.split, limit=self.limit or 50)
        return ProgramScores(part_of(self, ProgramSpec), asked)


@dataclass(frozen=True, kw_only=True)
class TrainingFolder(options.Output):
    """Where the weights are written, and what is printed."""

    out: Annotated[Path, Field("Folder for the adapter or weights.", "--out -o")]
    resume: options.Resume = False


@dataclass(frozen=True, kw_only=True)
class TrainOutput(options.Made):
    """The same, and an estimate instead."""

    out: Annotated[Path | None, Field("Folder for the adapter or weights; --estimate needs none.", "--out -o")] = None
    resume: options.Resume = False
    estimate: Annotated[bool, Field("Print how long it takes, and stop.", "--estimate")] = False


@with_option_groups
def train(
    examples: Annotated[Path, typer.Argument(help="Folder with examples.jsonl.")],
    method: Method,
    schedule: Schedule,
    machine: Machine,
    answering: Answering,
    measuring: Measuring,
    by_program: ProgramValidation,
    output: TrainOutput,
) -> None:
    """Train a small LM on examples: LoRA or full, resumable, on CPU or GPU."""
    from experiments.pipeline.training.opened import open_training
    from optimizers.distill.training.estimate import estimate

    opened = open_training(
        examples,
        make_settings(**vars(method), **vars(schedule), **vars(machine), **vars(measuring)),
        output.out or Path("FOLDER"),  # an estimate writes nothing
        metric_examples=answering.metric_examples,
        asked=[asked] if (asked := by_program.scores(measuring.keep_best)) else [],
        note=note,
        quiet=output.quiet,
    )
    if output.estimate or not (output.quiet or output.resume):
        size = estimate(opened.training)
        if output.estimate:
            emit(asdict(size)) if output.as_json else say(str(size))
            return
        note(str(size))
    with resumable():
        description = opened.run(resume=output.resume, shown=not output.quiet)
    if output.as_json:
        emit(description)
        return
    _print(description, output.folder)
    if not opened.unserved:
        trained = output.folder / description["best"]["folder"] if measuring.keep_best else output.folder
        next_step(asking(by_program.program or "rag", lm=f"embedded:{trained}", index=by_program.index))


def _print(description: dict[str, Any], output: Path) -> None:
    minutes = description["hours"] * 60
    steps, planned = description["steps"], description.get("planned_steps")  # which older ones lack
    done = f"{steps} of {planned} steps" if planned is not None and steps < planned else f"{steps} steps"
    say(f"{done}, {description['tokens']:,} tokens in {minutes:.1f} minutes")
    for measured in description["validation"][-1:]:
        for skill, loss in measured["losses"].items():
            say(f"  validation loss {skill}: {loss:.3f}")
        for name, value in measured["metrics"].items():
            say(f"  {name}: {value:.3f}")
    if best := description.get("best"):
        say(f"best by {best['metric']}: step {best['step']} ({best['value']:.3f}), in {output / best['folder']}")
    say(f"Written: {output}")
