"""`verihop vote`: the majority of several runs as a run."""

from pathlib import Path
from typing import Annotated

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, say, show
from experiments.cli.shared.next_commands import command


def vote(
    runs: Annotated[list[Path], typer.Argument(help="Finished runs on the same questions, most trusted first.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the run of the majority.")],
    as_json: options.Json = False,
) -> None:
    """Let runs of several programs vote: what an ensemble of them would answer, without asking an LM.

    The result is a run like any other, with the costs of all: compare it, open it in a report, put it on a leaderboard.
    `verihop artifact ensemble` makes the program.
    """
    from experiments.pipeline.merging.vote import vote as vote_of_runs

    summary = vote_of_runs(runs, out)
    if as_json:
        emit(summary.as_dict())
        return
    show(summary.as_table())
    say(f"Written: {out}")
    next_step(command("verihop", "compare", runs[0], out))
