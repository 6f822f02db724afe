"""`verihop merge`: join the shards of a run."""

from pathlib import Path
from typing import Annotated

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, note, say, show
from experiments.cli.shared.next_commands import command, other_run


def merge(
    runs: Annotated[list[Path], typer.Argument(help="The run folders of all shards.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the merged run.")],
    incomplete: Annotated[
        bool,
        typer.Option(
            "--incomplete", help="Merge even if shards or answers are missing; eval --resume answers the rest."
        ),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Join the shards of a run (eval --shard), or partial runs of the same settings, into one run.

    Records of `eval --record-branches` are joined too, so that the merged run can be replayed.
    """
    from experiments.pipeline.merging.merge import merge as merge_runs

    report = merge_runs(runs, out, incomplete=incomplete)
    for notice in report.notices:
        note(f"Note: {notice}")
    if as_json:
        emit(report.as_dict())
        return
    show(report.summary.as_table())
    wall = report.merged["wall_seconds"]
    clock = "not recorded for every part" if wall is None else f"{wall:,.0f} s from the first start to the last end"
    say(f"Parts: {len(runs)}; {report.merged['seconds']:,.1f} s of answering in sum; {clock}")
    say(f"Written: {out}")
    other = other_run(out)
    next_step(command("verihop", "compare", other, out) if other else command("verihop", "metrics"))


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
