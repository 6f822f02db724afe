"""`verihop eval`: score a program on questions with gold answers."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli.shared import options
from experiments.cli.shared.app import Watched, run_watched
from experiments.cli.shared.console import emit, next_step, note, say, show
from experiments.cli.shared.next_commands import after_record, after_run, after_shard
from experiments.cli.shared.options import Recording, with_option_groups
from experiments.runs.specs import ProgramSpec, RunSpec
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError, one_line
from signatures.common.logs import are_json, quotable

if TYPE_CHECKING:
    from experiments.analysis.summary import RunSummary
    from experiments.runs.fixed_contexts import FixedContexts


@dataclass(frozen=True, kw_only=True)
class Result(Watched):
    """What is written and printed."""

    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the run.")]
    report: Annotated[bool, typer.Option("--report", help="Also write report.html into the run's folder.")] = False
    no_calls: Annotated[
        bool, typer.Option("--no-calls", help="Do not keep the LM calls, which `verihop trace` shows.")
    ] = False


@with_option_groups
def eval_(
    questions: Annotated[Path, typer.Argument(help="questions.jsonl with gold answers.")],
    program: ProgramSpec,
    lm: LMSpec,
    run: RunSpec,
    resuming: options.Resuming,
    limits: options.Limits,
    recording: Recording,
    result: Result,
) -> None:
    """Ask a program every question of a file and score its answers."""
    from experiments.pipeline.verbs import evaluate

    answerer = options.answerer(program, lm, limits, threads=run.threads)
    done = evaluate(
        answerer,
        questions,
        result.out,
        replace(run, **recording.settings(run.processes), calls=not result.no_calls),
        resume=resuming.resume,
        progress=not (result.quiet or are_json()),
        say=note,
        watching=run_watched(result.otel),
    )
    _print(done.summary, result, done.oracle, _abstention(result.out, done.config.contexts))
    _exit_code(done.summary, result.out)
    if result.as_json:
        return
    if done.config.shard is not None:
        next_step(after_shard(done.config.shard, questions, run, [program, lm], [resuming, limits], result.out))
        return
    lm = replace(lm, id=answerer.lm.id)
    if recording.record_branches:
        metrics = [metric.name for metric in done.config.scored]
        next_step(after_record(questions, [lm, program], run, metrics, result.out))
    else:
        index = done.program.config.index
        fixed = done.config.contexts is not None
        next_step(after_run(done.summary, questions, [lm, run, limits], program, index, fixed=fixed))


def _print(summary: "RunSummary", result: Result, oracle: str | None, abstention: dict[str, Any] | None) -> None:
    """Print the scores, and write the report if requested."""
    if summary.unreadable:
        note(str(replace(summary.unreadable, example=quotable(summary.unreadable.example))))
    if result.report:
        from experiments.analysis.report.html import write_report

        note(f"Report: {write_report([result.out], result.out / 'report.html')}")
    if oracle:
        (note if result.as_json else say)(oracle)
    if result.as_json:
        emit({**summary.as_dict(), **({"reflection": abstention} if abstention else {})})
        return
    show(summary.as_table())
    if abstention:
        from experiments.runs.fixed_contexts import abstention_text

        say(abstention_text(abstention))
    say(f"Written: {result.out}")


def _abstention(run: Path, fixed: "FixedContexts | None") -> dict[str, Any] | None:
    """Return the scores of abstaining if the contexts are balanced."""
    from experiments.runs.files import read_rows
    from experiments.runs.fixed_contexts import abstention_scores

    return abstention_scores(read_rows(run)) if fixed is not None and fixed.knowledge == "balanced" else None


def _exit_code(summary: "RunSummary", run: Path) -> None:
    """Exit with 3 if the run is incomplete, with 1 if no reply was parsed; raise UserError if every question failed."""
    from experiments.runs.files import read_rows
    from programs.lms.servers.thinking import CURE

    rows = read_rows(run)
    if summary.errors == summary.answered > 0:
        first = one_line(rows[0]["error"])
        said = first.partition(": ")[2]
        raise UserError(f"All {summary.errors} questions ended in an error; the first: {first}").quoting(said)
    replies = sum(int(row.get("calls") or 0) for row in rows)
    if replies and replies == sum(int(row.get("thinking_only") or 0) for row in rows):
        raise UserError(f"All {replies} replies of the LM contained only thinking and no answer: {CURE}.")
    if summary.stopped:
        note("Resume with the same command, --resume and a larger budget.")
        raise typer.Exit(3)
    if summary.unreadable and summary.unreadable.all:
        raise typer.Exit(1)
