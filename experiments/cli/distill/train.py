"""`verihop distill train`: train a small LM on examples."""

import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, note, resumable, say
from experiments.cli.shared.next_commands import asking
from experiments.cli.shared.options import with_option_groups
from experiments.runs.specs import ProgramSpec, Retrieval, Selection
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
    preset: Annotated[str | None, Field("Of --program; by default small where it has one.")] = None
    knobs: Annotated[
        Mapping[str, Any],
        Field("A knob of --program as name=value, repeatable.", "--set", form=("name=value", "k=4")),
    ] = field(default_factory=dict)
    rerank: Annotated[str | None, fields_of(Retrieval)["rerank"].field] = None
    sentences: Annotated[int | None, Range(0, 100), fields_of(Retrieval)["sentences"].field] = None

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
class TrainOutput(options.Output):
    """Where the weights are written, and what is printed."""

    out: Annotated[Path, Field("Folder for the adapter or weights.", "--out -o")]
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
    from experiments.pipeline.progress import TrainingProgress
    from experiments.pipeline.training.program_scores import METRICS
    from optimizers.distill.training.data import encode_examples, open_examples
    from optimizers.distill.training.estimate import estimate
    from optimizers.distill.training.lm.base_model import load_base, require_packages, why_not_served
    from optimizers.distill.training.results import NONE_HELD_BACK
    from optimizers.distill.training.scoring import all_scores, check_metric, reply_scores
    from optimizers.distill.training.train import Training

    asked = by_program.scores(measuring.keep_best)
    settings = make_settings(**vars(method), **vars(schedule), **vars(machine), **vars(measuring))
    opened = open_examples(examples, settings)
    of_program = METRICS if asked is not None else ()
    if settings.keep_best:
        check_metric(settings.keep_best, opened.held_back, answering.metric_examples, of_program)
    require_packages()
    evaluated: dict[str, Any] = {"metric_examples": answering.metric_examples}
    if asked is not None:
        described, notes = asked.open()
        evaluated |= described
        for text in notes:
            note(f"Note: {text}")
    if asked is None and not opened.held_back:
        note(f"Note: nothing will be measured: {NONE_HELD_BACK}")
    if not output.quiet:
        note(f"Loading {settings.base} ...")
    base = load_base(settings.base)
    data = encode_examples(opened, base.tokenizer, settings)
    if data.left_out:
        lost = ", ".join(f"{count} of {skill}" for skill, count in data.left_out.items())
        note(f"Longer than {settings.max_tokens} tokens and left out: {lost}.")
    unserved = why_not_served(base)
    if asked is not None:
        if unserved:
            raise UserError(f"{settings.base!r} cannot be asked by a program: omit it, or train another LM. {unserved}")
        asked.check(data.train_examples)
    if settings.keep_best:  # of the validation examples, those that are too long are left out
        check_metric(settings.keep_best, data.validation_examples, answering.metric_examples, of_program)
    training = Training(base, data, settings, output.out, evaluated=evaluated)
    replies = answering.metric_examples and data.validation
    scores = [reply_scores(training.student, data, answering.metric_examples)] if replies else []
    scores += [asked] if asked is not None else []
    training.evaluate = all_scores(*scores) if scores else None
    if unserved and not output.quiet:
        note(f"Note: it can be trained, but --lm embedded:{output.out} will not serve it. {unserved}")
    if output.estimate or not (output.quiet or output.resume):
        size = estimate(training)
        if output.estimate:
            emit(asdict(size)) if output.as_json else say(str(size))
            return
        note(str(size))
    with resumable(), TrainingProgress(training, shown=not output.quiet, asked=str(asked or "")) as progress:
        training.before_measuring = progress.measuring
        description = training.run(resume=output.resume, report=progress.add, about=_about())
    if output.as_json:
        emit(description)
        return
    _print(description, output.out)
    if not unserved:
        trained = output.out / description["best"]["folder"] if settings.keep_best else output.out
        next_step(asking(by_program.program or "rag", lm=f"embedded:{trained}", index=by_program.index))


def _about() -> dict[str, Any]:
    from experiments.runs.config import portable
    from experiments.runs.files import git_revision

    return {
        "command": shlex.join(portable(["verihop", *sys.argv[1:]])),
        "revision": git_revision(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _print(description: dict[str, Any], output: Path) -> None:
    minutes = description["hours"] * 60
    say(f"{description['steps']} steps, {description['tokens']:,} tokens in {minutes:.1f} minutes")
    for measured in description["validation"][-1:]:
        for skill, loss in measured["losses"].items():
            say(f"  validation loss {skill}: {loss:.3f}")
        for name, value in measured["metrics"].items():
            say(f"  {name}: {value:.3f}")
    if best := description.get("best"):
        say(f"best by {best['metric']}: step {best['step']} ({best['value']:.3f}), in {output / best['folder']}")
    say(f"Written: {output}")
