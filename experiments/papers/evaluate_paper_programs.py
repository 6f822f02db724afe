"""The programs of the four papers on the first questions of HotpotQA's dev set, with small knobs.

    python -m experiments.papers.evaluate_paper_programs --data ../shared/data --lm embedded

All programs answer the same questions over the pooled paragraphs of the questions. The result file under
experiments/results contains the scores, the counts of errors and of unparseable replies, and for every question what
the program did: answer, hops with verdicts and passage ids, costs. It contains no text of the dataset.
"""

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.papers.command import run_command
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from corpora.questions import Question
    from experiments.runs.files import Row
    from programs.lms.connect import Connection
    from signatures.types import Retriever

KNOBS: dict[str, dict[str, Any]] = {
    "genground": {"k": 4, "batch_size": 2, "max_hops": 2},
    "cov_rag": {"k": 3},
    "retro_rag": {"k": 3, "source_size": 3, "inferential_size": 2, "max_rounds": 2},
    "self_completion": {"k": 3, "cap": 6, "turns": 1},
}
METRICS = ("em", "f1[hotpot]", "acc[substring]", "passage_recall@5")
RESULTS = Path("experiments/results")
FILE = "hotpot_dev_100.hf.jsonl"
# Keys of a row that the result file keeps: no questions, golds or passages of the dataset.
_KEPT = ("id", "answer", "abstained", "citations", "passage_ids", "scores", "calls", "rounds", "prompt_tokens",
         "completion_tokens", "parse_failures", "truncated", "error")  # fmt: skip

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__)


@app.command()
def evaluate_paper_programs(
    data: Annotated[Path, typer.Option(help="Folder that contains hotpotqa/.")] = Path("../shared/data"),
    lm: Annotated[str, typer.Option(help="LM id.")] = "embedded",
    dev: Annotated[int, typer.Option(help="Dev questions.", min=1)] = 10,
    out: Annotated[Path, typer.Option(help="Folder for everything but the result file.")] = Path("runs/four"),
    threads: Annotated[int, typer.Option(help="Questions asked in parallel.", min=1)] = 8,
    results: Annotated[Path, typer.Option(help="Folder for the result file.")] = RESULTS,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")] = False,
) -> None:
    """Run the four programs on HotpotQA."""
    from experiments.analysis.compare import compare_runs
    from experiments.pipeline.setup import open_lm
    from experiments.runs.config import LMConfig
    from experiments.runs.files import write_json
    from experiments.runs.provenance import portable, provenance
    from signatures.common.files import sha256_file

    source = data / "hotpotqa" / FILE
    questions, retrieve = _questions_and_retriever(source, out, dev)
    connection, started = open_lm(LMConfig(lm)), time.monotonic()
    programs = {name: _evaluate(name, questions, retrieve, connection, out / name, threads, resume) for name in KNOBS}
    record = {
        **provenance("experiments.papers.evaluate_paper_programs", connection),
        "retriever": retrieve.fingerprint,
        "files": {FILE: sha256_file(source)},
        "seconds": round(time.monotonic() - started),
        "programs": programs,
    }
    path = results / f"four_hotpotqa_{re.sub('[/:]', '_', portable(connection.id))}.json"
    write_json(path, portable(record))
    _show(compare_runs([out / name for name in KNOBS]))
    typer.echo(f"Written: {path} ({record['seconds']} s)", err=True)


def _questions_and_retriever(source: Path, out: Path, dev: int) -> "tuple[list[Question], Retriever]":
    """Convert and index HotpotQA's file; return the first questions and a hybrid retriever over its paragraphs."""
    from corpora.datasets.convert import convert
    from corpora.index.build import build_index
    from corpora.index.open import open_index
    from corpora.questions import read_questions, select

    converted = convert("hotpotqa", str(source), out / "data", overwrite=True)
    if converted.questions_path is None or converted.passages_path is None:
        raise UserError(f"{source} contains no questions: set --data to the folder that contains hotpotqa/{FILE}.")
    build_index(converted.passages_path, out / "index", retriever="hybrid", resume=(out / "index").exists())
    questions = select(read_questions(converted.questions_path), limit=dev)
    return questions, open_index(out / "index", converted.passages_path)


def _evaluate(
    name: str,
    questions: "list[Question]",
    retrieve: "Retriever",
    connection: "Connection",
    folder: Path,
    threads: int,
    resume: bool,
) -> dict[str, Any]:
    """Return a program's part of the result file."""
    from experiments.pipeline.evaluate import evaluate
    from experiments.runs.config import RunConfig
    from experiments.runs.files import read_rows
    from programs.catalog import build

    typer.echo(f"\n== {name}", err=True)
    summary = evaluate(
        build(name, retrieve, **KNOBS[name]),
        questions,
        RunConfig(metrics=METRICS, threads=threads),
        connection=connection,
        folder=folder,
        resume=resume,
    )
    counts = {field: value for field, value in summary.as_dict().items() if field != "folder"}
    return {"knobs": KNOBS[name], **counts, "rows": [_without_text(row) for row in read_rows(folder)]}


def _without_text(row: "Row") -> "Row":
    """Return what a row says about the program, without any text of the dataset."""
    hops = [
        {
            "verdict": hop["verdict"],
            "passage_ids": hop["passage_ids"],
            "candidates": [{"kept": item["kept"], "reason": item["reason"]} for item in hop.get("candidates", [])],
        }
        for hop in row["hops"]
    ]
    verifications = [
        {**item, "revised_question": bool(item["revised_question"])} for item in row["details"].get("verifications", [])
    ]
    details = row["details"] | ({"verifications": verifications} if verifications else {})
    return {**{name: row[name] for name in _KEPT}, "hops": hops, "details": details}


def _show(comparison: Any) -> None:
    from rich.console import Console

    Console().print(comparison.as_table())


if __name__ == "__main__":
    run_command(app, "evaluate_paper_programs")
