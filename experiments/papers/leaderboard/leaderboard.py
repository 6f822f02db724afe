"""Every program of the catalog on the simulated world and on real questions with the embedded LM, as one leaderboard.

    python -m experiments.papers.leaderboard.leaderboard --data ../shared/data --work ../leaderboard

Programs have the preset of their paper on the simulated world and the preset `small`, where they have one, with the
embedded LM, which is what every command gives them there. All read from the same index; nothing is compiled.

A finished row is recorded beside the tables and is not measured again, so that the command can be stopped and started
again, here or on another machine; cheap programs come first. `--boards` and `--programs` choose a part; `--only-table`
makes tables and plot again from the records, without an LM.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.papers.command import help_of, names, run_command, say
from experiments.papers.leaderboard.boards import SIZES, Board, open_board
from experiments.papers.leaderboard.measure import Records, measure
from experiments.papers.leaderboard.tables import as_markdown, draw, table
from signatures.common.errors import UserError

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
            _measure(board, _cheap_first(programs, board.preset), records, work / "runs" / name, threads)
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


def _cheap_first(programs: str, preset: str) -> list[str]:
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
