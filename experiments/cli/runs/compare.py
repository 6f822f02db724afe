"""`verihop compare`: compare runs, paired on the questions they share."""

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import counter, emit, next_step, note, say, show
from experiments.cli.shared.next_commands import command, new_path
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from experiments.analysis.boards import Board


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Two or more run folders, compared with the first.")],
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


def leaderboard(
    runs: Annotated[list[Path], typer.Argument(help="Finished run folders, or folders that contain them.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the pages.", show_default=False)] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Refuse runs that are not comparable, sound and finished, and say why; without --out, write nothing.",
        ),
    ] = False,
    corpus: Annotated[
        list[Path] | None,
        typer.Option(
            help="passages.jsonl of runs whose index is not here, for hashes of its passages.", show_default=False
        ),
    ] = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Write runs as a page: programs ranked on each question set, quality against cost, answers and traces.

    The page works without a server. Differences from rag are paired and corrected (Holm), with closed book and the
    majority answer beside them. Each row has the hashes of questions, corpus and weights, the LM and the command.
    """
    from experiments.analysis.boards import check_comparable, read_boards, refuse_left_out
    from experiments.analysis.report.leaderboard import write_leaderboard
    from experiments.runs.files import collector_paused

    if out is None and not check:
        raise UserError("Name the folder for the pages (--out site), or only check the runs (--check).")
    with collector_paused():
        left_out = refuse_left_out if check else lambda reason: note(f"Left out: {reason}")
        boards = read_boards(runs, on_left_out=left_out)
        uncomputed = check_comparable(boards) if check else []
        for each in uncomputed:
            note(each)
        if out is not None:
            with counter("Pages", shown=not (quiet or as_json)) as count:
                done = itertools.count(1)
                write_leaderboard(boards, out, corpora=corpus or (), on_page=lambda: count(next(done)))
    if as_json:
        described = [board.as_dict() for board in boards]
        emit({"out": None if out is None else str(out), "boards": described, "not_computed": uncomputed})
    else:
        _print(boards, runs, out)


def _print(boards: "list[Board]", runs: list[Path], out: Path | None) -> None:
    for board in boards:
        best, n = board.runs[board.ranked[0]].label, board.questions["n"]
        count = f"{len(board.runs)} run{'s' if len(board.runs) > 1 else ''}"
        say(f"{board.title}: {count} on {n} questions; highest {board.metric}: {best}")
        for each in board.differences:
            note(f"Note: {board.title}: {each} These rows are not comparable.")
    if out is None:
        next_step(command("verihop", "leaderboard", *runs, "--out", new_path(Path("site"))))
    else:
        say(f"Written: {out / 'index.html'}")
