"""`verihop compare`: compare runs, paired on the questions they share."""

from pathlib import Path
from typing import Annotated

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, note, show
from experiments.cli.shared.next_commands import command
from signatures.common.errors import UserError


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Two or more run folders; differences are to the first.")],
    by: Annotated[
        str | None,
        typer.Option(
            help="Group by a field: kind (composed or comparison), type, level, hops (gold hops of the question), "
            "hops_taken (by the first run), details.inferential_evidence; in the report, too.",
            show_default=False,
        ),
    ] = None,
    question: Annotated[
        str | None, typer.Option(help="Show the trace of each run on the question with this id.", show_default=False)
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Also write a report of the runs to this file.", show_default=False)
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Print a paired comparison of runs, overall or by groups of questions, or the traces of one question."""
    from experiments.runs.files import collector_paused

    if question is not None:
        if by is not None or html is not None:
            raise UserError("--question shows a single question: omit --by and --html.")
        _show_question(runs, question, as_json=as_json)
        return
    with collector_paused():
        _compare(runs, by, html, as_json=as_json)


def _compare(runs: list[Path], by: str | None, html: Path | None, *, as_json: bool) -> None:
    from experiments.analysis.compare import compare_runs

    comparison = compare_runs(runs)
    groups = None
    if by is not None:
        from experiments.analysis.by_group import compare_by

        groups = compare_by(comparison, by)
    if html is not None:
        from experiments.analysis.report.html import write_report

        note(f"Report: {write_report(runs, html, groups=groups, comparison=comparison)}")
    if as_json:
        emit({**comparison.as_dict(), **({} if groups is None else {"by": groups.as_dict()})})
        return
    show((groups or comparison).as_table())
    if html is None:
        grouped = [] if by is None else ["--by", by]
        next_step(command("verihop", "compare", *runs, *grouped, "--html", "report.html"))


def _show_question(runs: list[Path], question: str, *, as_json: bool) -> None:
    from experiments.analysis.traces import traces

    found = traces(runs, question)
    if as_json:
        emit(found.as_dict())
    else:
        show(found.as_table())
