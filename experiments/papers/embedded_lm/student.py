"""The tables that concern training, with our own student: the trained embedded LM against the untrained one.

    python -m experiments.papers.embedded_lm.student --data ../shared/data --work ../embedded-lm/work --resume

Questions that nobody trained on, retrieved from one pooled corpus per set: the development sets of HotpotQA,
2WikiMultihopQA and MuSiQue with their official mix; `hotpotqa-whole` and `2wikimultihopqa-whole`, of which the recorded
tables are, draw from all questions of the files. `--rows` are the tables: `reading` (`rag` alone, cheap enough for all
questions), `targets` (the programs with the trained LM, two with the untrained one), `table3` (GenGround's Table 3),
`cov_rag` (CoV-RAG with and without verification, and what its second search repairs and breaks). Each table of each set
can be run alone;
`experiments/results/student_embedded.json` keeps the others. A run is resumed with `--resume`, and one that another
table has made is used again.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.papers.command import help_of, names, run_command, say
from experiments.papers.embedded_lm import student_tables as tables
from experiments.papers.embedded_lm.student_sets import SETS, WHOLE, EvaluationSet, Runs, open_lms, open_set

if TYPE_CHECKING:
    from programs.lms.connect import Connection

ROWS = {"reading": tables.reading, "targets": tables.targets, "table3": tables.table3, "cov_rag": tables.cov_rag}
RESULTS = Path("experiments/results")
FILE = "student_embedded.json"

# Options of the commands of this folder.
Data = Annotated[Path, typer.Option(help="Folder with the official files.")]
Work = Annotated[Path, typer.Option(help="Folder for converted files, indexes and runs.")]
Trained = Annotated[str, typer.Option(help="The trained LM.")]
Untrained = Annotated[str, typer.Option(help="The untrained LM.")]
Sets = Annotated[str, typer.Option(help="Separated by commas.")]
Rows = Annotated[str, typer.Option(help="Tables, separated by commas.")]
Results = Annotated[Path, typer.Option(help="Folder for the result file.")]
Resume = Annotated[bool, typer.Option("--resume", help="Resume interrupted runs.")]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(help=help_of(__doc__))
def student(
    data: Data = Path("../shared/data"),
    work: Work = Path("runs/student"),
    lm: Trained = "embedded",
    base: Untrained = "embedded:base-8bit",
    sets: Sets = ",".join(SETS),
    questions: Annotated[int, typer.Option(help="Questions of each set.", min=2)] = 200,
    rows: Rows = ",".join(ROWS),
    results: Results = RESULTS,
    resume: Resume = False,
) -> None:
    """Measure the tables."""
    named_sets, named_rows = names("set", sets, (*SETS, *WHOLE)), names("table", rows, tuple(ROWS))
    lms = open_lms({"trained": lm, "untrained": base})
    for name in named_sets:
        of = open_set(name, data, work, questions)
        runs = Runs(of, lms, work / "student", threads=8, resume=resume)
        for table in named_rows:
            say(f"{table}, {name}")
            started = time.monotonic()
            found = ROWS[table](runs)
            record = {
                **head("experiments.papers.embedded_lm.student", of, lms, found),
                "seconds": round(time.monotonic() - started),
                **found,
            }
            keep(results / FILE, name, table, record)
            typer.echo(tables.as_text(name, table, record))
    say(f"Written: {results / FILE}")


def head(module: str, of: EvaluationSet, lms: "dict[str, Connection]", found: dict[str, Any]) -> dict[str, Any]:
    """Return what a table was measured with; the tables of a file may come from different sessions.

    Args:
        module: Of the command.
        of: The set.
        lms: Name -> the LM.
        found: The table; the LMs of its `runs` are named.
    """
    from experiments.runs.config import provenance

    used = {run["lm"] for run in found["runs"].values()}
    return {
        **{name: value for name, value in provenance(module).items() if name != "lm"},
        "lms": {name: {"id": lm.id, "weights_hash": lm.weights_hash} for name, lm in lms.items() if name in used},
        "files": of.files,
        "retriever": of.retrieve.fingerprint,
        "questions": len(of.questions),
    }


def keep(path: Path, name: str, table: str, record: dict[str, Any]) -> dict[str, Any]:
    """Write a table of a set into a result file, beside those that it contains; return all of them by set."""
    from experiments.runs.config import portable
    from experiments.runs.files import read_json, write_json

    sets: dict[str, Any] = read_json(path)["sets"] if path.is_file() else {}
    sets.setdefault(name, {})[table] = portable(record)
    write_json(path, {"sets": sets})
    return sets


if __name__ == "__main__":
    run_command(app, "student")
