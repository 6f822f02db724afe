"""Every program of the catalog on the simulated world and on real questions with the embedded LM, as one leaderboard.

    python -m experiments.papers.leaderboard.leaderboard --data ../shared/data --work ../leaderboard

Programs have the preset of their paper on the simulated world and the preset `small`, where they have one, with the
embedded LM, which is what every command gives them there. All read from the same index; nothing is compiled. The real
boards are the development sets near the official mix of questions, drawn by a hash of their ids; those named `-whole`
are drawn from the whole files, whose mix is another.

A finished row is recorded beside the tables and is not measured again, so that the command can be stopped and started
again, here or on another machine; cheap programs come first. `--boards` and `--programs` choose a part; `--only-table`
makes tables and plot again from the records, without an LM.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.analysis.boards import REFERENCE
from experiments.analysis.closed_book import by_kind, count_types, shares
from experiments.analysis.report.plots import empty_figure, write_png
from experiments.analysis.statistics import holm, mean_of, paired
from experiments.analysis.summary import percent
from experiments.papers.command import help_of, names, run_command, say
from experiments.papers.leaderboard.boards import SIZES, TITLES, WORLD, Board, open_board
from experiments.papers.leaderboard.measure import F1, Record, Records, measure
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_AGAINST = f"against {REFERENCE}"
_OF_THE_PAPERS = ("genground", "cov_rag", "self_completion", "retro_rag")
_HEADINGS = ("program", "EM", "F1", f"F1 minus {REFERENCE}", "p (Holm)", "cover-EM", "gold recall", "calls", "tokens",
             "rounds", "seconds", "errors", "parse failures", "stopped")  # fmt: skip


def table(boards: Mapping[str, Mapping[str, Record]]) -> dict[str, Any]:
    """Return each board with its programs, the best F1 first, each with its difference to `REFERENCE`.

    The p-values of a board, and those of each kind of its questions, are corrected for all their differences (Holm).
    """
    return {
        board: {
            "made_with": next(iter(rows.values())).made_with,
            "closed_book": next((row.closed_book for row in rows.values() if row.closed_book), {}),
            "answer_types": count_types(("", golds) for golds in _golds(rows)),
            "programs": _programs(rows),
        }
        for board, rows in ((board, boards[board]) for board in SIZES if board in boards)
    }


def _golds(rows: Mapping[str, Record]) -> list[list[str]]:
    """Return the accepted answers to each question; empty if all rows are of earlier versions."""
    return next((row.golds for row in rows.values() if row.golds), [])


def _programs(rows: Mapping[str, Record]) -> dict[str, Any]:
    found = {
        row.program: _row(row, rows.get(REFERENCE))
        for row in sorted(rows.values(), key=lambda row: (-(row.means[F1]["mean"] or 0.0), row.program))
    }
    kinds = dict.fromkeys(kind for row in found.values() for kind in row["kinds"])
    of_kinds = [[row["kinds"][kind] for row in found.values() if kind in row["kinds"]] for kind in kinds]
    for compared in (found.values(), *of_kinds):
        against = [each[_AGAINST] for each in compared if each[_AGAINST] is not None]
        for difference, p in zip(against, holm([difference["p"] for difference in against]), strict=True):
            difference["p_holm"] = p
    return found


def _row(row: Record, reference: Record | None) -> dict[str, Any]:
    values = row.answers[F1]
    others = None if reference is None or reference.program == row.program else reference.answers[F1]

    def against(places: Sequence[int]) -> dict[str, Any] | None:
        if others is None:
            return None
        return paired([others[place] for place in places], [values[place] for place in places]).as_dict()

    kinds = {
        kind: {**mean_of([values[place] for place in places]).as_dict(), _AGAINST: against(places)}
        for kind, places in by_kind(row.kinds or []).items()
    }
    kept = ("preset", "knobs", "max_calls", "means", "faults", "stop_reasons")
    return {**row.model_dump(include=set(kept)), _AGAINST: against(range(len(values))), "kinds": kinds}


def as_markdown(found: Mapping[str, Any]) -> str:
    """Return the leaderboard as Markdown: first all boards beside one another, then each with all its columns."""
    parts = ["# Leaderboard", _over_all(found)]
    for board, of in found.items():
        n = of["made_with"]["questions"]["n"]
        parts.append(f"## {TITLES[board]}, {n} questions, LM `{of['made_with']['lm']['id']}`")
        if of["answer_types"]:
            parts.append(f"{shares(of['answer_types'])}.".capitalize())
        if of["closed_book"]:
            parts.append(_without_reading(of["closed_book"]))
        kinds = list(dict.fromkeys(kind for row in of["programs"].values() for kind in row["kinds"]))
        headings = (*_HEADINGS[:3], *(f"F1, {kind}" for kind in kinds), *_HEADINGS[3:])
        parts.append(_markdown(headings, [_cells(name, row, kinds) for name, row in of["programs"].items()]))
    return "\n\n".join(parts) + "\n"


def _over_all(found: Mapping[str, Any]) -> str:
    """Return a table with F1 and calls of each program on each board, the best mean F1 over real boards first."""
    programs = list(dict.fromkeys(name for of in found.values() for name in of["programs"]))
    real = [board for board in found if board != WORLD]

    def score(name: str, board: str) -> float:
        row = found[board]["programs"].get(name)
        return row["means"][F1]["mean"] or 0.0 if row else 0.0

    def place(name: str) -> tuple[float, float, str]:
        worlds = score(name, WORLD) if WORLD in found else 0.0
        return -sum(score(name, board) for board in real), -worlds, name

    def cell(name: str, board: str) -> list[str]:
        row = found[board]["programs"].get(name)
        return (
            ["", ""] if row is None else [percent(row["means"][F1]["mean"]), f"{row['means']['lm_calls']['mean']:.1f}"]
        )

    headings = ["program", *(f"{TITLES[board]}: {what}" for board in found for what in ("F1", "calls"))]
    rows = [
        [f"`{name}`", *(text for board in found for text in cell(name, board))] for name in sorted(programs, key=place)
    ]
    return _markdown(headings, rows)


def _without_reading(books: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what answers without passages and without an LM score, of all questions and of each kind."""
    rows = [
        [group, book["questions"], repr(book["answer"]), percent(book["majority"][F1]), book["two_choices"],
         percent(book["chance"][F1])]
        for group, book in books.items()
    ]  # fmt: skip
    headings = ("questions", "n", "majority answer", "its F1", "offer two choices", "F1 of chance")
    return _markdown(headings, [list(map(str, row)) for row in rows])


def _cells(name: str, row: Mapping[str, Any], kinds: Sequence[str]) -> list[str]:
    means, faults = row["means"], row["faults"]
    against = row[_AGAINST]
    reasons = ", ".join(f"{reason} {count}" for reason, count in row["stop_reasons"].items())
    return [
        f"`{name}`",
        _interval(means["em"]),
        _interval(means[F1]),
        *(_interval(row["kinds"][kind]) if kind in row["kinds"] else "" for kind in kinds),
        "" if against is None else _interval({**against, "mean": against["difference"]}, sign="+"),
        "" if against is None or against["p_holm"] is None else f"{against['p_holm']:.3f}",
        percent(means["acc[substring]"]["mean"]),
        percent(means["passage_recall[all]"]["mean"]),
        f"{means['lm_calls']['mean']:.1f}",
        f"{means['tokens']['mean']:,.0f}",
        f"{means['rounds']['mean']:.1f}",
        f"{means['seconds']['mean']:.2f}",
        str(faults["errors"]),
        str(faults["parse_failures"]),
        reasons,
    ]


def _interval(mean: Mapping[str, Any], sign: str = "") -> str:
    if mean["mean"] is None:
        return "-"
    ends = "" if mean["low"] is None else f" [{100 * mean['low']:.1f}, {100 * mean['high']:.1f}]"
    return f"{100 * mean['mean']:{sign}.1f}{ends}"


def _markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def draw(found: Mapping[str, Any], path: Path) -> Path:
    """Plot F1 with its 95 % interval, a panel per board, the best program on top, each with its tokens per question."""

    most = max(len(of["programs"]) for of in found.values())
    figure, canvas = empty_figure(5.4 * len(found), 1.2 + 0.27 * most, dpi=110)
    for axes, (board, of) in zip(figure.subplots(1, len(found), squeeze=False).flat, found.items(), strict=True):
        _panel(axes, of["programs"])
        axes.set_title(TITLES[board], loc="left", fontsize=11)
        axes.set_xlabel("F1, % (95 % interval); tokens per question in brackets")
    return write_png(canvas, path)


def _panel(axes: "Axes", programs: Mapping[str, Any]) -> None:
    """Draw the programs in their order; those of the four papers and the reference stand out."""
    for place, (name, row) in enumerate(programs.items()):
        found = row["means"][F1]
        mean, low, high = (100 * (found[end] or 0.0) for end in ("mean", "low", "high"))
        colour = "C3" if name in _OF_THE_PAPERS else "black" if name == REFERENCE else "C0"
        axes.errorbar([mean], [place], xerr=[[mean - low], [high - mean]], fmt="o", color=colour, markersize=4)
    axes.set_yticks(
        range(len(programs)),
        [f"{name} ({row['means']['tokens']['mean']:,.0f})" for name, row in programs.items()],
        fontsize=8,
    )
    axes.invert_yaxis()
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


MODULE = "experiments.papers.leaderboard.leaderboard"
RESULTS, FILE, ROWS_FILE = Path("experiments/results"), "leaderboard.json", "leaderboard_rows.jsonl"
WORK = Path("runs/leaderboard")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(help=help_of(__doc__))
def leaderboard(
    data: Annotated[Path, typer.Option(help="Folder with the official files.")] = Path("../shared/data"),
    work: Annotated[Path, typer.Option(help="Folder for converted files, indexes and runs.")] = Path(
        "runs/leaderboard"
    ),
    boards: Annotated[str, typer.Option(help="Separated by commas.")] = ",".join(SIZES),
    programs: Annotated[str, typer.Option(help="Separated by commas; all by default.", show_default=False)] = "",
    questions: Annotated[
        int | None, typer.Option(help="Questions of each board; 300 and 100 by default.", min=2, show_default=False)
    ] = None,
    lm: Annotated[str, typer.Option(help="Answers the real questions.")] = "embedded",
    threads: Annotated[int, typer.Option(help="Questions asked in parallel.", min=1)] = 4,
    results: Annotated[Path, typer.Option(help="Folder for the records, the tables and the plot.")] = RESULTS,
    only_table: Annotated[
        bool, typer.Option("--only-table", help="Make tables and plot again from the records, without an LM.")
    ] = False,
) -> None:
    """Measure the programs, and write what is there after each."""
    records = Records(results / ROWS_FILE)
    if not only_table:
        for name in names("board", boards, tuple(SIZES)):
            board = open_board(name, data=data, work=work, questions=questions, lm=lm)
            _measure(board, cheap_first(programs, board.preset), records, work / "runs" / name, threads)
    if not records:
        raise UserError(f"{records.path} has no records: measure some, or name their folder with --results.")
    write_tables(records, results)
    typer.echo(as_markdown(table(records.boards())))
    say(f"Written: {results / FILE}")


def _measure(board: Board, programs: list[str], records: Records, folder: Path, threads: int) -> None:
    for name in programs:
        say(f"{board.name}, {name}")
        known = len(records)
        measure(name, board, records, folder / name, threads=threads)
        if len(records) > known:
            write_tables(records, records.path.parent)


def cheap_first(programs: str, preset: str) -> list[str]:
    """Return the programs that the user names, or all, those with few calls first."""
    from programs.catalog import PROGRAMS, build, presets_of

    def calls(name: str) -> int:
        built: Any = build(name, preset=preset if preset in presets_of(PROGRAMS[name]) else "paper")
        return int(built.max_calls())

    return sorted(names("program", programs or ",".join(PROGRAMS), tuple(PROGRAMS)), key=calls)


def write_tables(records: Records, results: Path) -> dict[str, Any]:
    """Write `leaderboard.json`, `.md` and `.png` of all that is recorded, and return the table."""
    from experiments.runs.files import write_json
    from signatures.common.files import atomic_write

    found = table(records.boards())
    write_json(results / FILE, {"command": f"python -m {MODULE} --only-table", "boards": found})
    with atomic_write((results / FILE).with_suffix(".md")) as file:
        file.write(as_markdown(found))
    draw(found, (results / FILE).with_suffix(".png"))
    return found


if __name__ == "__main__":
    run_command(app, "leaderboard")
