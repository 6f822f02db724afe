"""`verihop compile`: optimize a program on training questions and freeze it."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli.shared import options
from experiments.cli.shared.app import Log
from experiments.cli.shared.console import emit, next_step, note, race_outcomes, race_table, resumable, say, show
from experiments.cli.shared.next_commands import after_freezing, naming, other_split, search_options, used
from experiments.cli.shared.options import with_option_groups
from experiments.runs.specs import CompileSpec, UncompiledSpec
from programs.lms.spec import LMSpec
from signatures.common.logs import are_json, event
from signatures.common.specs import Field

if TYPE_CHECKING:
    from programs.artifact import Artifact

MOST_SHOWN = 12  # candidates
ACCEPT_MORE = "Try --metric 'f1[hotpot]' --accept 0.5, more questions, --optimizer labeled or another --lm."


@dataclass(frozen=True, kw_only=True)
class CompileOutput(options.Made, options.Replacing):
    """Where the artifact is written, and what is printed."""

    out: Annotated[Path | None, Field("Folder for the artifact; --estimate needs none.", "--out -o")] = None
    estimate: Annotated[bool, Field("Only print LM calls, tokens and price at most; call no LM.", "--estimate")] = False
    log: Log = None


@with_option_groups
def compile_(
    questions: Annotated[Path, typer.Argument(help="questions.jsonl to optimize on; none of a test split.")],
    program: UncompiledSpec,
    lm: LMSpec,
    spec: CompileSpec,
    resuming: options.Resuming,
    limits: options.Limits,
    output: CompileOutput,
) -> None:
    """Optimize a program on training questions and freeze it into an artifact.

    If the budget is spent, the best candidate so far is frozen, or else the uncompiled program (exit code 3); continue
    with --resume and a larger budget. The budget covers all sessions of the compilation; its seconds count per session.
    """
    from experiments.pipeline.compile import note_without_demonstrations, stopped_text
    from experiments.pipeline.verbs import compilation

    work = compilation(options.answerer(program, lm, limits, threads=spec.threads), questions, spec)
    if output.estimate:
        emit(work.estimate.as_dict()) if output.as_json else say(str(work.estimate))
        return
    with resumable():
        artifact, notes = work.run(
            output.folder,
            resume=resuming.resume,
            overwrite=output.overwrite,
            progress=not (output.quiet or are_json()),
            say=lambda text: note(f"Note: {text}"),
        )
    if empty := note_without_demonstrations(artifact, work.trainset, cure=ACCEPT_MORE, none_wanted="--max-demos is 0."):
        notes.append(empty)
        note(f"Note: {empty}")
    facts = {"score": artifact.metric.get("mean"), "stopped": artifact.optimizer["stopped"]}
    event("compile_ended", {**facts, **artifact.optimizer["cost"]}, artifact=str(output.folder))
    if output.as_json:
        emit({"artifact": str(output.folder), **artifact.model_dump(mode="json"), "notes": notes})
    else:
        _print(artifact, program.program, output)
    if stopped := stopped_text(artifact.optimizer, cure="Resume with the same command, --resume and a larger budget."):
        note(stopped)
        raise typer.Exit(3)
    if output.as_json:
        return
    words = [*naming(program.program), *used(lm), *search_options(program), *used(limits)]
    seen = [*work.trainset, *work.valset]  # those that the program was made from or chosen by give no fair score
    held_out = other_split(spec.val, spec.val_split, seen) or other_split(questions, spec.split, seen)
    next_step(*after_freezing(output.folder, output.folder, words, held_out))


def _print(artifact: "Artifact", program: str, output: CompileOutput) -> None:
    from experiments.pipeline.corpus_notes import no_gain_note

    optimizer, metric = artifact.optimizer, artifact.metric
    demos = ", ".join(f"{count} for {name.removesuffix('.predict')}" for name, count in optimizer["accepted"].items())
    say(f"Compiled {program} with {optimizer['name']}: {optimizer['tried']} questions tried, demonstrations: {demos}.")
    if race := optimizer["details"].get("race"):
        if not output.quiet:
            show(race_table(race, metric["name"]))
        for line in race_outcomes(race):
            say(line)
    elif optimizer["candidates"] and not output.quiet:
        show(_candidates_table(optimizer, metric["name"]))
    cost = optimizer["cost"]
    cached = f", {cost['cached_calls']:.0f} of them from the cache" if cost.get("cached_calls") else ""
    say(f"Cost: {cost['calls']:.0f} LM calls{cached}, {cost['seconds']} s.")
    if text := no_gain_note(artifact.lm.id if artifact.lm else ""):
        say(text)
    if metric.get("mean") is not None:
        mean, low, high = (None if metric[name] is None else 100 * metric[name] for name in ("mean", "low", "high"))
        interval = "" if low is None else f" (95 % interval {low:.1f} to {high:.1f})"
        say(f"{metric['name']} on {metric['n']} validation questions: {mean:.1f} %{interval}")
    say(f"Frozen: {output.folder}")


def _candidates_table(optimizer: dict[str, Any], metric: str) -> Any:
    from rich.markup import escape
    from rich.table import Table

    from experiments.analysis.summary import percent

    rows = sorted(optimizer["candidates"], key=lambda row: (-row["complete"], -(row["mean"] or 0)))
    left_out = f"; {len(rows) - MOST_SHOWN} more are in artifact.json" if len(rows) > MOST_SHOWN else ""
    table = Table(title="Candidates", caption=f"* frozen; LM calls until then, cached ones included{left_out}")
    for name in ("candidate", escape(metric), "95 % interval", "questions", "LM calls"):
        table.add_column(name, justify="left" if name == "candidate" else "right")
    for row in rows[:MOST_SHOWN]:
        spread = "" if row["low"] is None else f"{percent(row['low'])} to {percent(row['high'])}"
        label = escape(row["label"]) + (" *" if row["label"] == optimizer["chosen"] else "")
        remarks = [*(() if row["complete"] else ("not all",)), *((f"{row['errors']} errors",) if row["errors"] else ())]
        questions = f"{row['n']}" + (f" ({', '.join(remarks)})" if remarks else "")
        table.add_row(label, percent(row["mean"]), spread, questions, f"{row['calls']:,}")
    return table
