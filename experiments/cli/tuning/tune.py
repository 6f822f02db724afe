"""`verihop tune`: search the best knobs, demonstrations and instructions of a program, and freeze them."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli.shared import options
from experiments.cli.shared.app import Log
from experiments.cli.shared.console import emit, next_step, note, resumable, say, show
from experiments.cli.shared.next_commands import after_freezing, naming, other_split, search_options, used
from experiments.cli.shared.options import with_option_groups
from experiments.runs.specs import ProgramSpec, StudySpec
from programs.lms.spec import LMSpec
from signatures.common.logs import are_json, event
from signatures.common.specs import Field

if TYPE_CHECKING:
    from experiments.pipeline.tuning.config import TuneConfig
    from experiments.pipeline.tuning.results import Found


@dataclass(frozen=True, kw_only=True)
class TuneOutput(options.Made, options.Replacing):
    """What is written and printed."""

    out: Annotated[
        Path | None, Field("Folder for the study, its plots and the artifact; --estimate needs none.", "--out -o")
    ] = None
    estimate: Annotated[bool, Field("Only print the maximum cost of the study; call no LM.", "--estimate")] = False
    log: Log = None


@with_option_groups
def tune(
    questions: Annotated[Path, typer.Argument(help="questions.jsonl that every trial is scored on.")],
    program: ProgramSpec,
    lm: LMSpec,
    spec: StudySpec,
    resuming: options.Resuming,
    limits: options.Limits,
    output: TuneOutput,
) -> None:
    """Search the best knobs, demonstrations and instructions, and freeze them.

    Trial 0 is the unchanged program. The best setting is compared with it on held-out questions. --resume continues a
    stopped study.
    """
    from experiments.pipeline.verbs import study

    work = study(options.answerer(program, lm, limits, threads=spec.threads), questions, spec)
    if output.estimate:
        whole = work.estimate()
        emit(asdict(whole)) if output.as_json else say(str(whole))
        return
    with resumable():
        found, notes = work.run(
            output.folder,
            resume=resuming.resume,
            overwrite=output.overwrite,
            progress=not (output.quiet or are_json()),
            say=lambda text: note(f"Note: {text}"),
        )
    best = {} if found.chosen is None else {"trial": found.chosen.number, "score": found.chosen.score()}
    event("study_ended", best, stopped=found.stopped, folder=str(output.folder))
    _print(found, work.config, output, notes)
    if not output.as_json and found.artifact is not None:
        words = [*naming(program.program), *used(lm), *search_options(program)]
        held_out = other_split(questions, spec.split)
        scored = [] if work.config.metric.judged else ["--metrics", spec.metric]  # a study of a record names no judge
        next_step(*after_freezing(found.artifact, output.folder, words, held_out, scored))
    if found.stopped:
        note(f"Stopped: {found.stopped} Resume with the same command, --resume and a larger budget.")
        raise typer.Exit(3)


def _print(found: "Found", config: "TuneConfig", output: TuneOutput, notes: list[str]) -> None:
    from experiments.analysis.tuning.findings import trials_table

    if output.as_json:
        written = {
            "artifact": str(found.artifact) if found.artifact else None,
            "plots": [str(path) for path in found.plots],
        }
        emit({**written, **found.record, "notes": [*notes, *([found.unbought] if found.unbought else [])]})
        return
    number = found.chosen.number if found.chosen else None
    if not output.quiet:
        show(trials_table(found.findings, found.present, metric=config.metric.name, chosen=number))
    counts = ", ".join(f"{count} {state}" for state, count in found.record["counts"].items())
    spent = found.record["spent"]
    say(f"Trials: {counts}. LM calls sent: {spent.get('calls', 0):,.0f}, tokens: {spent.get('tokens', 0):,.0f}.")
    if (held := found.findings.held_score) is not None and held.mean is not None:
        interval = "" if held.low is None or held.high is None else f" [{100 * held.low:.1f}, {100 * held.high:.1f}]"
        say(f"Held-out estimate of such a choice: {100 * held.mean:.1f} %{interval}, {config.folds} folds.")
    elif config.folds and found.findings.best:
        n = len(found.record["questions"])
        few = f"it takes 2 folds of 2 questions each at least, not {config.folds} of {n} questions"
        limits = "without the questions of one fold no trial keeps the limits"
        say(f"No held-out estimate: {few if config.folds < 2 or n < 2 * config.folds else limits}.")
    say(found.findings.verdict)
    if unseen := [trial for trial in found.findings.trials if trial.unseen]:
        cure = (
            "with --buy, each time they are asked"
            if config.buy
            else "record more branches (eval --record-branches), or add --buy"
        )
        say(f"{len(unseen)} trials reached unrecorded branches and have no score: {cure}.")
    if found.unbought:
        say(found.unbought)
    for path in found.plots:
        say(f"Plot: {path}")
    if found.artifact is not None:
        say(f"Frozen: {found.artifact} (trial {number})")
