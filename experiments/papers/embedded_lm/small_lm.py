"""What a small LM needs: the form of its prompt, and ways of finding the passage, with the trained embedded LM.

    python -m experiments.papers.embedded_lm.small_lm --data ../shared/data --work ../embedded-lm/work --resume

The questions are those of `student`: nobody trained on them. `--rows` are the tables: `forms` (the same gold passages
in several forms of the prompt, trained and untrained LM) and `finding` (ways of finding the passage in what is
retrieved, trained LM, against `rag` with three passages), `orders` (GenGround with other orders of the fields of its
prompts), `weighing` (RetroRAG that weighs several pieces of evidence in one call). Each table of each set can be run
alone; `experiments/results/small_lm.json` keeps the others. Replies of the first two are not cached, so that tokens are
counted in full; a run is resumed with `--resume`.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.papers.command import help_of, names, run_command, say
from experiments.papers.embedded_lm import student
from experiments.papers.embedded_lm import student_tables as tables
from experiments.papers.embedded_lm.small_lm_finding import finding
from experiments.papers.embedded_lm.small_lm_forms import forms
from experiments.papers.embedded_lm.small_lm_orders import orders, weighing
from experiments.papers.embedded_lm.small_lm_runs import ALL_GOLD, EM, F1, METRICS
from experiments.papers.embedded_lm.student_sets import SETS, Runs, open_lms, open_set

MODULE = "experiments.papers.embedded_lm.small_lm"
FILE = "small_lm.json"
TABLES = {"forms": forms, "finding": finding, "orders": orders, "weighing": weighing}
CACHED = {"orders", "weighing"}
# Table -> its columns: heading -> key of a run; scores in percent, costs as numbers.
COLUMNS = {
    "forms": {EM: EM, F1: F1, "prompt tokens": "prompt_tokens", "unparsed": "unparsed"},
    "finding": {EM: EM, F1: F1, "all gold": ALL_GOLD, "calls": "lm_calls", "tokens": "tokens"},
    "orders": {EM: EM, F1: F1, "calls": "lm_calls", "tokens": "tokens"},
    "weighing": {EM: EM, F1: F1, "calls": "lm_calls", "tokens": "tokens"},
}
_COSTS = ("prompt_tokens", "lm_calls", "tokens")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(help=help_of(__doc__))
def small_lm(
    data: student.Data = Path("../shared/data"),
    work: student.Work = Path("runs/student"),
    lm: student.Trained = "embedded",
    base: student.Untrained = "embedded:base-8bit",
    sets: student.Sets = ",".join(SETS),
    questions: Annotated[int, typer.Option(help="Questions of each set.", min=2)] = 100,
    rows: student.Rows = ",".join(TABLES),
    results: student.Results = student.RESULTS,
    resume: student.Resume = False,
) -> None:
    """Measure the tables."""
    named_sets, named_rows = names("set", sets, SETS), names("table", rows, tuple(TABLES))
    ids = {"trained": lm, "untrained": base} if "forms" in named_rows else {"trained": lm}
    lms = open_lms(ids, cache=set(named_rows) <= CACHED)
    for name in named_sets:
        of = open_set(name, data, work, questions)
        runs = Runs(of, lms, work / "small_lm", threads=8, resume=resume, metrics=METRICS)
        for table in named_rows:
            say(f"{table}, {name}")
            started = time.monotonic()
            found = TABLES[table](runs)
            head = student.head(MODULE, of, lms, found)
            record = {**head, "seconds": round(time.monotonic() - started), **found}
            student.keep(results / FILE, name, table, record)
            typer.echo(as_text(name, table, record))
    say(f"Written: {results / FILE}")


def as_text(name: str, table: str, record: Mapping[str, Any]) -> str:
    """Return a plain table of one set: a line per run with its paired differences, in percent with 95 % intervals."""
    columns = COLUMNS[table]
    compared = {f"{metric}, paired": metric for metric in (EM, F1)}
    headings = [*columns, "n", "errors", *compared]
    lines = [f"\n{table}, {name}, {record['questions']} questions", _line("", headings)]
    for label, run in record["runs"].items():
        paired = record["differences"].get(label)
        cells = [_cell(key, run.get(key)) for key in columns.values()]
        cells += [str(run["n"]), str(run["errors"])]
        cells += [tables.signed_text(paired[metric]) if paired else "(control)" for metric in compared.values()]
        lines.append(_line(label, cells))
    return "\n".join([*lines, *(f"Note: {note}" for note in record["notes"])])


def _line(label: str, cells: list[str]) -> str:
    return "  ".join([f"{label:32}", *(f"{cell:>20}" for cell in cells)])


def _cell(key: str, mean: Mapping[str, Any] | None) -> str:
    if key not in _COSTS:
        return tables.score_text(mean)
    return "-" if mean is None or mean["mean"] is None else f"{mean['mean']:.1f}"


if __name__ == "__main__":
    run_command(app, "small_lm")
