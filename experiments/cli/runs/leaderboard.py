"""`verihop leaderboard`: runs as a page on which programs are ranked, set by set."""

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import counter, emit, next_step, note, say
from experiments.cli.shared.next_commands import command, new_path
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from experiments.analysis.boards import Board


def leaderboard(
    runs: Annotated[list[Path], typer.Argument(help="Finished run folders, of any programs and question sets.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the pages.", show_default=False)] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Refuse runs that are not comparable, and say which field differs; without --out, write nothing.",
        ),
    ] = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Write runs as a page: programs ranked on each question set, quality against cost, answers and traces.

    It works from a file. Differences to rag are paired and corrected (Holm); closed book and the majority answer stand
    beside. Each row has the hashes of questions, corpus and weights, the LM and the command.
    """
    from experiments.analysis.boards import check_comparable, read_boards
    from experiments.analysis.report.leaderboard import write_leaderboard
    from experiments.runs.files import collector_paused

    if out is None and not check:
        raise UserError("Name the folder for the pages (--out site), or only check the runs (--check).")
    with collector_paused():
        boards = read_boards(runs)
        if check:
            check_comparable(boards)
        if out is not None:
            with counter("Pages", shown=not (quiet or as_json)) as count:
                done = itertools.count(1)
                write_leaderboard(boards, out, on_page=lambda: count(next(done)))
    _print(boards, out, as_json=as_json)


def _print(boards: "list[Board]", out: Path | None, *, as_json: bool) -> None:
    if as_json:
        emit({"out": None if out is None else str(out), "boards": [board.as_dict() for board in boards]})
        return
    for board in boards:
        best, n = board.runs[board.ranked[0]].label, board.questions["n"]
        runs = f"{len(board.runs)} run{'s' if len(board.runs) > 1 else ''}"
        say(f"{board.title}: {runs} on {n} questions; highest {board.metric}: {best}")
        for each in board.differences:
            note(f"Note: {board.title}: {each} These rows are not comparable.")
    if out is None:
        folders = [run.folder for board in boards for run in board.runs]
        next_step(command("verihop", "leaderboard", *folders, "--out", new_path(Path("site"))))
    else:
        say(f"Written: {out / 'index.html'}")
