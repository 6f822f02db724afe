"""What compiling and tuning gain: optimizers, races and studies at equal budgets, on a real LM and real questions.

    python -m experiments.papers.compiling.gains --data ../shared/data --work ../compiling

Each row gets the same number of LM calls for everything that it does, and makes one artifact per seed from the same
train and dev questions; the test questions are asked once per artifact. Replies are shared between rows, budgets are
not (`shared_replies.py`). Programs start at their preset for small LMs, as in every command with the embedded LM.

A finished row is recorded beside the table, with the scores of every test question, and is not made again; so the
command can be stopped and started again, here or on another machine. `--rows`, `--programs` and `--seeds` choose a
part; `--only-table` makes table and plot again from the records, without an LM.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from experiments.papers.command import help_of, names, run_command, say
from experiments.papers.compiling.gains_table import as_text, draw, table
from experiments.papers.compiling.records import Record, Records
from experiments.papers.compiling.rows import PRESET, ROWS
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from experiments.papers.compiling.runs import Comparison

MODULE = "experiments.papers.compiling.gains"
RESULTS, FILE, ROWS_FILE = Path("experiments/results"), "compiling.json", "compiling_rows.jsonl"


class Size(NamedTuple):
    """How much a program is given: LM calls of a row, dev questions and test questions."""

    calls: int
    dev: int
    test: int


LM = "embedded"
# A question costs rag one call, the other two about four.
SIZES = {"rag": Size(1000, 120, 250), "cov_rag": Size(1000, 50, 100), "genground": Size(1000, 50, 100)}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(help=help_of(__doc__))
def gains(
    data: Annotated[Path, typer.Option(help="Folder with the official files.")] = Path("../shared/data"),
    work: Annotated[Path, typer.Option(help="Folder for converted files, the index, artifacts and runs.")] = Path(
        "runs/compiling"
    ),
    lm: Annotated[str, typer.Option(help="Task LM, which also writes instructions.")] = LM,
    programs: Annotated[str, typer.Option(help="Separated by commas.")] = ",".join(SIZES),
    rows: Annotated[str, typer.Option(help="Separated by commas.")] = ",".join(ROWS),
    seeds: Annotated[str, typer.Option(help="Seeds of the artifacts, separated by commas.")] = "0,1,2",
    results: Annotated[Path, typer.Option(help="Folder for the records, the table and the plot.")] = RESULTS,
    only_table: Annotated[
        bool, typer.Option("--only-table", help="Make table and plot again from the records, without an LM.")
    ] = False,
) -> None:
    """Measure the rows, and write what is there after each."""
    records = Records(results / ROWS_FILE)
    if not only_table:
        named, chosen = names("program", programs, tuple(SIZES)), names("row", rows, tuple(ROWS))
        wanted = _numbers(seeds)
        _measure(records, _comparisons(named, data, work, lm, records), chosen, wanted)
    if not records.groups():
        raise UserError(f"{records.path} has no records of rows: measure some, or name their folder with --results.")
    found = write_table(records, results)
    for name, record in found.items():
        typer.echo(as_text(name, record))
    say(f"Written: {results / FILE}")


def _measure(records: Records, comparisons: "list[Comparison]", rows: Sequence[str], seeds: Sequence[int]) -> None:
    for seed in seeds:
        for comparison in comparisons:
            for row in rows:
                say(f"{comparison.program}, {row}, seed {seed}")
                known = len(records)
                comparison.measure(row, seed)
                if len(records) > known:
                    write_table(records, records.path.parent)


def _comparisons(programs: Sequence[str], data: Path, work: Path, lm: str, records: Records) -> "list[Comparison]":
    from corpora.retrievers.rerank import open_reranker
    from experiments.papers.compiling.questions import open_questions
    from experiments.papers.compiling.runs import Comparison
    from experiments.pipeline import setup
    from experiments.runs.config import LMConfig
    from programs.catalog import build

    connection, questions = setup.open_lm(LMConfig(lm)), open_questions(data, work)
    return [
        Comparison(
            program=name,
            student=build(name, open_reranker(questions.retrieve, "own"), preset=PRESET),
            splits={
                "train": questions.splits["train"],
                "dev": questions.splits["dev"][: SIZES[name].dev],
                "test": questions.splits["test"][: SIZES[name].test],
            },
            connection=connection,
            budget=SIZES[name].calls,
            records=records,
            folder=work / "rows" / re.sub(r"\W+", "-", lm) / name,
        )
        for name in programs
    ]


def _numbers(seeds: str) -> list[int]:
    named = [seed.strip() for seed in seeds.split(",")]
    if not all(seed.isascii() and seed.isdigit() for seed in named):
        raise UserError(f"{seeds!r} are no seeds: name whole numbers from 0, separated by commas, as in 0,1,2.")
    return sorted({int(seed) for seed in named})


def write_table(records: Records, results: Path) -> dict[str, Any]:
    """Write table and plot of all that is recorded, and return the table.

    Args:
        records: Of finished rows.
        results: Folder to write into.

    Returns:
        Program, with the LM unless it is the embedded one -> how it was measured, and its rows.
    """
    from experiments.runs.files import write_json

    found = {
        program if lm == LM else f"{program} with {lm}": _program(lm, rows)
        for (lm, program), rows in sorted(records.groups().items(), key=_place)
    }
    write_json(results / FILE, {"command": f"python -m {MODULE} --only-table", "programs": found})
    draw(found, (results / FILE).with_suffix(".png"))
    return found


def _place(group: tuple[tuple[str, str], Any]) -> tuple[bool, str, int]:
    """Return what a table is sorted by: the embedded LM first, programs in the order of `SIZES`."""
    (lm, program), _ = group
    return lm != LM, lm, list(SIZES).index(program)


def _program(lm: str, rows: Mapping[str, Mapping[int, Record]]) -> dict[str, Any]:
    """Return what all rows of a program were made with, and its table."""
    made_with = next(record.made_with for of_seeds in rows.values() for record in of_seeds.values())
    return {"lm_id": lm, **made_with, "rows": table(rows)}


if __name__ == "__main__":
    run_command(app, "gains")
