"""`verihop judge`: an LM compares the answers of several runs by CoV-RAG's criteria."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, note, resumable, say, show
from experiments.cli.shared.next_commands import command
from experiments.cli.shared.options import with_option_groups
from programs.lms.spec import LMSpec
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from rich.table import Table

    from experiments.analysis.statistics import Mean
    from experiments.annotation.judgement_results import Judgement


_SHOWN_REASONS = 3  # questions


@with_option_groups
def judge(
    runs: Annotated[list[Path], typer.Argument(help="Two to four run folders.")],
    lm: LMSpec,
    execution: options.SeededExecution,
    limits: options.Limits,
    output: options.Output,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the judgements.", rich_help_panel="Output")],
    passages: Annotated[
        Path | None, typer.Option(help="The runs' corpus; without it, citations are not judged.", show_default=False)
    ] = None,
) -> None:
    """Let an LM score and rank answers, blind and in shuffled order; print scores, ranks, rates and some reasons.

    Ranks follow from the scores: equal scores share the best rank, and low bias is best. All reasons are in the rows of
    the judgements and in the output of --json.
    """
    from corpora.passages import read_passages
    from experiments.annotation.judge_runs import judge_runs
    from experiments.pipeline.corpus_notes import judge_note
    from experiments.pipeline.setup import open_lm

    corpus = {passage.id: passage for passage in read_passages(passages)} if passages else {}
    connection = open_lm(lm.for_threads(execution.threads), limits.budget())
    if text := judge_note(connection.id):
        note(f"Note: {text}")
    with resumable():
        judgement = judge_runs(
            runs,
            corpus,
            connection=connection,
            out=out,
            threads=execution.threads,
            resume=execution.resume,
            seed=execution.seed,
            progress=not output.quiet,
        )
    if output.as_json:
        emit(judgement.as_dict())
    else:
        _print(judgement, out, quiet=output.quiet)
    if judgement.all_unparsed:
        raise UserError(f"{connection.id} returned no verdict that could be parsed: name another LM with --lm.")
    if not output.as_json:
        next_step(command("verihop", "compare", *runs))


def _print(judgement: "Judgement", out: Path, *, quiet: bool) -> None:
    if not quiet:
        show(_table(judgement))
    _print_reasons(judgement, out)
    for run, mean in judgement.revisions.items():
        say(f"Revised questions of {run}: {_cell(mean)}")
    for notice in judgement.notices:
        note(f"Note: {notice}")
    if judgement.left_out:
        note(f"{judgement.left_out} questions are excluded: a run lacks them, or they ended in an error.")
    if judgement.unread or judgement.moved:
        note(f"{judgement.unread} replies of the judge were unparseable; {judgement.moved} scores were outside 0 to 1.")
    if judgement.misordered:
        note(f"{judgement.misordered} rankings of the judge contradict their own scores, from which the ranks follow.")
    say(f"Written: {out}")


def _print_reasons(judgement: "Judgement", out: Path) -> None:
    questions = list(dict.fromkeys(reason.id for reason in judgement.reasons))
    if not questions:
        return
    shown = questions[:_SHOWN_REASONS]
    say(f"Reasons of the judge for {len(shown)} of {len(questions)} questions (all of them: {out / 'rows.jsonl'}):")
    for reason in judgement.reasons:
        if reason.id in shown:
            say(f"- {reason.question or reason.id} ({reason.criteria}): {' '.join(reason.text.split())}")


def _cell(mean: "Mean") -> str:
    if mean.mean is None:
        return "-"
    ends = "" if mean.low is None else f" [{mean.low:.2f} to {mean.high:.2f}]"
    return f"{mean.mean:.2f}{ends}, n = {mean.n}"


def _table(judgement: "Judgement") -> "Table":
    from rich.table import Table

    table = Table(title=f"{judgement.questions} questions; rank 1 is best, low bias is better", title_justify="left")
    for name in ("criterion", "run", "score", "rank", "high quality"):
        table.add_column(name)
    for item in judgement.standings:
        cells = (_cell(item.score), _cell(item.rank), _cell(item.high_quality))
        table.add_row(item.criterion, item.run, *cells)
    return table
