"""What compiling and tuning gain: optimizers, races and studies at equal budgets, on a real LM and real questions.

    python -m experiments.papers.compiling.gains --data ../shared/data --work ../compiling

Each row gets the same number of LM calls for everything that it does, and makes one artifact per seed from the same
train and dev questions; the test questions are asked once per artifact. Replies are shared between rows, budgets are
not (`shared_replies.py`). Programs start at their preset for small LMs, as in every command with the embedded LM. Rows
and answers that are finished are kept, so that the command can be stopped and started again; `--rows`, `--programs`
and `--seeds` choose a part.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from experiments.papers.command import help_of, run_command, say
from experiments.papers.compiling.gains_table import as_text, draw, table
from experiments.papers.compiling.questions import open_questions
from experiments.papers.compiling.rows import ROWS, limits_of
from experiments.papers.compiling.runs import Comparison
from experiments.papers.embedded_lm.student import names

if TYPE_CHECKING:
    from experiments.papers.compiling.questions import Questions
    from programs.lms.connect import Connection

MODULE = "experiments.papers.compiling.gains"
RESULTS, FILE = Path("experiments/results"), "compiling.json"


class Size(NamedTuple):
    """How much a program is given: LM calls of a row, dev questions and test questions."""

    calls: int
    dev: int
    test: int


PRESET = "small"  # of every row: the paper's values do not fit the context of the embedded LM
# A question costs rag one call, the other two about four.
SIZES = {"rag": Size(1000, 120, 250), "cov_rag": Size(1500, 60, 120), "genground": Size(1500, 60, 120)}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=help_of(__doc__))


@app.command(help=help_of(__doc__))
def gains(
    data: Annotated[Path, typer.Option(help="Folder with the official files.")] = Path("../shared/data"),
    work: Annotated[Path, typer.Option(help="Folder for converted files, the index, artifacts and runs.")] = Path(
        "runs/compiling"
    ),
    lm: Annotated[str, typer.Option(help="Task LM, which also writes instructions.")] = "embedded",
    programs: Annotated[str, typer.Option(help="Separated by commas.")] = ",".join(SIZES),
    rows: Annotated[str, typer.Option(help="Separated by commas.")] = ",".join(ROWS),
    seeds: Annotated[int, typer.Option(help="Artifacts of each row.", min=1)] = 3,
    results: Annotated[Path, typer.Option(help="Folder for the result file and the plot.")] = RESULTS,
) -> None:
    """Measure the rows, and write what is there after each."""
    from experiments.pipeline import setup
    from experiments.runs.config import LMConfig

    named, chosen = names("program", programs, tuple(SIZES)), names("row", rows, tuple(ROWS))
    questions, connection = open_questions(data, work), setup.open_lm(LMConfig(lm))
    comparisons = [_comparison(name, questions, connection, work) for name in named]
    path = results / FILE
    for seed in range(seeds):
        for comparison in comparisons:
            for row in chosen:
                say(f"{comparison.program}, {row}, seed {seed}")
                comparison.rows(row, seed)
                _keep(path, comparison, {**_head(questions, connection, comparison), "rows": table(comparison, seeds)})
    for name in named:
        typer.echo(as_text(name, _programs(path)[name]))
    draw(_programs(path), path.with_suffix(".png"))
    say(f"Written: {path}")


def _comparison(name: str, questions: "Questions", connection: "Connection", work: Path) -> Comparison:
    from corpora.retrievers.rerank import open_reranker
    from programs.catalog import build

    size, splits = SIZES[name], questions.splits
    return Comparison(
        program=name,
        student=build(name, open_reranker(questions.retrieve, "own"), preset=PRESET),
        splits={"train": splits["train"], "dev": splits["dev"][: size.dev]},
        test=splits["test"][: size.test],
        connection=connection,
        budget=size.calls,
        folder=work / "rows" / name,
    )


def _head(questions: "Questions", connection: "Connection", of: Comparison) -> dict[str, Any]:
    """Return what a program was measured with; the programs of the file may come from different sessions."""
    from experiments.runs.provenance import provenance

    return {
        **provenance(MODULE, connection),
        "files": questions.files,
        "retriever": questions.retrieve.fingerprint,
        "calls": of.budget,
        "questions": {**{split: len(found) for split, found in of.splits.items()}, "test": len(of.test)},
        "preset": PRESET,
        **limits_of(of.program),
    }


def _keep(path: Path, comparison: Comparison, record: dict[str, Any]) -> None:
    """Write the record of a program into the result file, beside those of others."""
    from experiments.runs.files import write_json
    from experiments.runs.provenance import portable

    write_json(path, {"programs": {**_programs(path), comparison.program: portable(record)}})


def _programs(path: Path) -> dict[str, Any]:
    from experiments.runs.files import read_json

    found: dict[str, Any] = read_json(path)["programs"] if path.is_file() else {}
    return found


if __name__ == "__main__":
    run_command(app, "gains")
