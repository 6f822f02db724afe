"""`verihop compare`: runs side by side, paired on the questions they share."""

from pathlib import Path
from typing import Annotated

import typer

from experiments import options
from experiments.output import emit, next_step, note


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Two or more run folders; differences are against the first.")],
    html: Annotated[Path | None, typer.Option(help="Write a report of the runs to this file, too.")] = None,
    as_json: options.Json = False,
) -> None:
    """Print a paired table of runs."""
    from experiments.compare import compare_runs

    comparison = compare_runs(runs)
    if html is not None:
        from experiments.report.html import write_report

        note(f"Report: {write_report(runs, html)}")
    if as_json:
        emit(comparison.as_dict())
        return
    from rich.console import Console

    Console().print(comparison.as_table())
    if html is None:
        next_step(f"verihop compare {' '.join(map(str, runs))} --html report.html")
