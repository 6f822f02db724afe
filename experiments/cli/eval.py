"""`verihop eval`: score a program on questions with gold answers."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli.shared import options
from experiments.cli.shared.app import Watched, run_watched
from experiments.cli.shared.console import emit, next_step, note, say, show
from experiments.cli.shared.next_commands import after_record, after_run, after_shard, studied
from experiments.cli.shared.options import Recording, with_option_groups
from experiments.runs.fixed_contexts import abstention_scores, abstention_text
from experiments.runs.specs import ProgramSpec, RunSpec
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError, one_line
from signatures.common.logs import are_json, quotable
from signatures.common.specs import Field

if TYPE_CHECKING:
    from experiments.analysis.summary import RunSummary
    from experiments.runs.fixed_contexts import FixedContexts


@dataclass(frozen=True, kw_only=True)
class EvalOutput(Watched):
    """What is written and printed."""

    out: Annotated[Path, Field("Folder for the run.", "--out -o")]
    report: Annotated[bool, Field("Also write report.html into the run's folder.", "--report")] = False
    no_calls: Annotated[bool, Field("Do not store the LM calls, which `verihop trace` shows.", "--no-calls")] = False


@with_option_groups
def eval_(
    questions: Annotated[Path, typer.Argument(help="questions.jsonl with gold answers.")],
    program: ProgramSpec,
    lm: LMSpec,
    run: RunSpec,
    resuming: options.Resuming,
    limits: options.Limits,
    recording: Recording,
    output: EvalOutput,
) -> None:
    """Ask a program every question of a file and score its answers."""
    from experiments.pipeline.setup import open_questions
    from experiments.pipeline.verbs import evaluate

    answerer = options.answerer(program, lm, limits, threads=run.threads)
    done = evaluate(
        answerer,
        questions,
        output.out,
        replace(run, **recording.settings(run.processes), calls=not output.no_calls),
        resume=resuming.resume,
        progress=not (output.quiet or are_json()),
        say=note,
        watching=run_watched(output.otel),
    )
    _print(done.summary, output, done.oracle, _abstention(output.out, done.config.contexts))
    _exit_code(done.summary, output.out)
    if output.as_json:
        return
    if done.config.shard is not None:
        after = [resuming, limits, recording]
        next_step(after_shard(done.config.shard, questions, run, [program, lm], after, output.out))
        return
    lm = replace(lm, id=answerer.lm.id)
    fixed = done.config.contexts is not None
    recorded = [metric.name for metric in done.config.scored] if recording.record_branches else []
    asked = open_questions(questions, split=run.split, limit=run.limit) if recorded else []
    if (metric := studied(recorded, asked, fixed=fixed)) is not None:
        next_step(after_record(questions, [lm, program], run, metric, output.out))
    else:
        index = done.program.config.index
        next_step(after_run(done.summary, questions, [lm, run, limits], program, index, fixed=fixed))


def _print(summary: "RunSummary", output: EvalOutput, oracle: str | None, abstention: dict[str, Any] | None) -> None:
    if summary.unreadable:
        note(str(replace(summary.unreadable, example=quotable(summary.unreadable.example))))
    if output.report:
        from experiments.analysis.report.html import write_report

        note(f"Report: {write_report([output.out], output.out / 'report.html')}")
    if oracle:
        (note if output.as_json else say)(oracle)
    if output.as_json:
        emit({**summary.as_dict(), **({"reflection": abstention} if abstention else {})})
        return
    if not output.quiet:
        show(summary.as_table())
    if abstention:
        say(abstention_text(abstention))
    say(f"Written: {output.out}")


def _abstention(run: Path, fixed: "FixedContexts | None") -> dict[str, Any] | None:
    from experiments.runs.files import read_rows

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
