"""`verihop distill train`: train a small LM on examples."""

import shlex
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli.distill.training_options import Machine, Measuring, Method, ProgramValidation, Result, Schedule
from experiments.cli.shared.console import emit, next_step, note, resumable, say
from experiments.cli.shared.next_commands import asking
from experiments.cli.shared.option_groups import with_option_groups
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from optimizers.distill.training.settings import TrainingSettings


@with_option_groups
def train(
    examples: Annotated[Path, typer.Argument(help="Folder with examples.jsonl.")],
    method: Method,
    schedule: Schedule,
    machine: Machine,
    measuring: Measuring,
    by_program: ProgramValidation,
    result: Result,
) -> None:
    """Train a small LM on examples: LoRA or full, resumable, on CPU or GPU."""
    from experiments.cli.distill.training_progress import TrainingProgress
    from experiments.pipeline.training.program_scores import METRICS
    from optimizers.distill.training.data import encode_examples, open_examples
    from optimizers.distill.training.estimate import estimate
    from optimizers.distill.training.lm.base_model import load_base, require_packages, why_not_served
    from optimizers.distill.training.results import NONE_HELD_BACK
    from optimizers.distill.training.scoring import all_scores, check_metric, reply_scores
    from optimizers.distill.training.train import Training

    asked = by_program.scores(measuring.keep_best)
    settings = _settings(method, schedule, machine, measuring)
    opened = open_examples(examples, settings)
    of_program = METRICS if asked is not None else ()
    if settings.keep_best:
        check_metric(settings.keep_best, opened.held_back, measuring.metric_examples, of_program)
    require_packages()
    evaluated: dict[str, Any] = {"metric_examples": measuring.metric_examples}
    if asked is not None:
        described, notes = asked.open()
        evaluated |= described
        for text in notes:
            note(f"Note: {text}")
    if asked is None and not opened.held_back:
        note(f"Note: nothing will be measured: {NONE_HELD_BACK}")
    if not result.quiet:
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
        check_metric(settings.keep_best, data.validation_examples, measuring.metric_examples, of_program)
    training = Training(base, data, settings, result.out, evaluated=evaluated)
    replies = measuring.metric_examples and data.validation
    scores = [reply_scores(training.student, data, measuring.metric_examples)] if replies else []
    scores += [asked] if asked is not None else []
    training.evaluate = all_scores(*scores) if scores else None
    if unserved and not result.quiet:
        note(f"Note: it can be trained, but --lm embedded:{result.out} will not serve it. {unserved}")
    if result.estimate or not (result.quiet or result.resume):
        size = estimate(training)
        if result.estimate:
            emit(asdict(size)) if result.as_json else say(str(size))
            return
        note(str(size))
    with resumable(), TrainingProgress(training, shown=not result.quiet, asked=str(asked or "")) as progress:
        training.before_measuring = progress.measuring
        description = training.run(resume=result.resume, report=progress.add, about=_about())
    if result.as_json:
        emit(description)
        return
    _print(description, result.out)
    if not unserved:
        trained = result.out / description["best"]["folder"] if settings.keep_best else result.out
        next_step(asking(by_program.program or "rag", lm=f"embedded:{trained}", index=by_program.index))


def _about() -> dict[str, Any]:
    from experiments.runs.files import git_revision
    from experiments.runs.provenance import portable

    return {
        "command": shlex.join(portable(["verihop", *sys.argv[1:]])),
        "revision": git_revision(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _settings(method: Method, schedule: Schedule, machine: Machine, measuring: Measuring) -> "TrainingSettings":
    from optimizers.distill.training.settings import make_settings

    values: dict[str, Any] = {**vars(method), **vars(schedule), **vars(machine), **vars(measuring)}
    values["first_layer"] = values.pop("layers")
    values["weights"] = _weights(values.pop("weight"))
    del values["metric_examples"]
    values["resume_adapter"] = str(method.resume_adapter) if method.resume_adapter else None
    return make_settings(**values)


def _weights(settings: list[str] | None) -> dict[str, float]:
    weights = {}
    for setting in settings or ():
        skill, equals, text = setting.partition("=")
        try:
            weights[skill] = float(text)
        except ValueError:
            equals = ""
        if not equals:
            raise UserError(f"--weight takes skill=number, got {setting!r}. Example: --weight reading=2.")
    return weights


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
