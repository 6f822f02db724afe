"""The programs of the four papers on the first real questions of HotpotQA's dev set, at small knobs.

    python -m experiments.papers.four --data ../shared/data --lm embedded

Each program answers the same questions over their pooled paragraphs. Scores are printed as they are; errors and
replies that could not be read are counted. One small file under experiments/results keeps the scores and, for every
question, what the program did: answer, hops with verdicts and passage ids, costs. It holds no text of the data set.
"""

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from signatures.common.errors import UserError

if TYPE_CHECKING:
    from experiments.runs.files import Row

KNOBS: dict[str, dict[str, Any]] = {
    "genground": {"k": 4, "batch_size": 2, "max_hops": 2},
    "cov_rag": {"k": 3},
    "retro_rag": {"k": 3, "source_size": 3, "inferential_size": 2, "max_rounds": 2},
    "self_completion": {"k": 3, "cap": 6, "turns": 1},
}
METRICS = ("em", "f1[hotpot]", "acc[substring]", "recall@5")
RESULTS = Path("experiments/results")
FILE = "hotpot_dev_100.hf.jsonl"
# Of a row: what the program did and what it cost. Questions, golds and passages stay with the data set.
_KEPT = ("id", "answer", "abstained", "citations", "passage_ids", "scores", "calls", "rounds", "prompt_tokens",
         "completion_tokens", "parse_failures", "truncated", "error")  # fmt: skip

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, help=__doc__)


@app.command()
def four(
    data: Annotated[Path, typer.Option(help="Folder that holds hotpotqa/.")] = Path("../shared/data"),
    lm: Annotated[str, typer.Option(help="LM id.")] = "embedded",
    dev: Annotated[int, typer.Option(help="Dev questions.", min=1)] = 10,
    out: Annotated[Path, typer.Option(help="Folder for everything but the result file.")] = Path("runs/four"),
    threads: Annotated[int, typer.Option(help="Questions side by side.", min=1)] = 8,
    results: Annotated[Path, typer.Option(help="Folder for the result file.")] = RESULTS,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run.")] = False,
) -> None:
    """Run the four programs on HotpotQA."""
    from corpora.datasets.convert import convert
    from corpora.index.build import build_index
    from corpora.index.open import open_index
    from corpora.questions import read_questions, select
    from experiments.analysis.compare import compare_runs
    from experiments.pipeline.evaluate import evaluate
    from experiments.pipeline.setup import open_lm
    from experiments.runs.files import read_rows, write_json
    from experiments.runs.provenance import portable, provenance
    from programs.catalog import build
    from signatures.common.files import sha256_file

    source = data / "hotpotqa" / FILE
    converted = convert("hotpotqa", str(source), out / "data", overwrite=True)
    if converted.questions_path is None or converted.passages_path is None:
        raise UserError(f"{source} holds no questions: point --data to the folder that holds hotpotqa/{FILE}.")
    build_index(converted.passages_path, out / "index", retriever="hybrid", resume=(out / "index").exists())
    retrieve = open_index(out / "index", converted.passages_path)
    questions = select(read_questions(converted.questions_path), limit=dev)
    connection, started, programs = open_lm(lm), time.monotonic(), {}
    for name, knobs in KNOBS.items():
        typer.echo(f"\n== {name}", err=True)
        summary = evaluate(
            build(name, retrieve, **knobs),
            questions,
            connection=connection,
            metrics=METRICS,
            folder=out / name,
            threads=threads,
            resume=resume,
            resume_command="the same command with --resume",
        )
        counts = {name: value for name, value in summary.as_dict().items() if name != "folder"}
        programs[name] = {"knobs": knobs, **counts, "rows": [_deeds(row) for row in read_rows(out / name)]}
    record = {
        **provenance("experiments.papers.four", connection),
        "retriever": retrieve.fingerprint,
        "files": {FILE: sha256_file(source)},
        "seconds": round(time.monotonic() - started),
        "programs": programs,
    }
    path = results / f"four_hotpotqa_{re.sub('[/:]', '_', portable(connection.id))}.json"
    write_json(path, portable(record))
    _show(compare_runs([out / name for name in KNOBS]))
    typer.echo(f"Written: {path} ({record['seconds']} s)", err=True)


def _deeds(row: "Row") -> "Row":
    """Return what a row says of the program's doing, without any text of the data set."""
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
    try:
        app()
    except UserError as error:
        typer.echo(f"four: {error}", err=True)
        sys.exit(2)
