"""Compile `rag` and `genground` and evaluate them before and after, from raw data to one answered question.

    python -m experiments.papers.compile_and_evaluate hotpotqa --data ../shared/data --lm embedded

It uses 30 training and 50 dev questions of HotpotQA with their own paragraphs as the corpus: converts, indexes,
compiles, evaluates, and writes one result file under experiments/results. There is no such command for the simulated
world, whose LM reads no demonstrations (experiments/world/README.md): compilation can show no gain there.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.papers.command import run_command, say

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from experiments.analysis.summary import RunSummary
    from programs.lms.connect import Connection
    from signatures.types import Retriever

KNOBS: dict[str, dict[str, Any]] = {"rag": {"k": 4}, "genground": {"k": 4, "batch_size": 2, "max_hops": 2}}
METRICS = ("em", "f1[hotpot]", "acc[substring]", "passage_recall@5", "all_gold@5")
RESULTS = Path("experiments/results")

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)


@dataclass(frozen=True)
class Setting:
    """Questions and a retriever.

    Args:
        name: Name of the experiment and of its result file.
        trainset: Training questions.
        devset: Questions to score on.
        retrieve: The retriever.
        index: Its index folder.
        files: Source files of the questions, name -> SHA-256.
    """

    name: str
    trainset: "list[Question]"
    devset: "list[Question]"
    retrieve: "Retriever"
    index: Path
    files: dict[str, str]


Threads = Annotated[int, typer.Option(help="Questions asked in parallel.")]
Results = Annotated[Path, typer.Option(help="Folder for the result file.")]
Resume = Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")]


@app.callback()
def _commands() -> None:
    """Keep the name of the benchmark a command, although there is one."""


@app.command()
def hotpotqa(
    data: Annotated[Path, typer.Option(help="Folder that contains hotpotqa/.")] = Path("../shared/data"),
    lm: Annotated[str, typer.Option(help="LM id.")] = "embedded",
    train: Annotated[int, typer.Option(help="Training questions.")] = 30,
    dev: Annotated[int, typer.Option(help="Dev questions.")] = 50,
    out: Annotated[Path, typer.Option(help="Folder for everything but the result file.")] = Path("runs/road-hotpotqa"),
    threads: Threads = 8,
    results: Results = RESULTS,
    resume: Resume = False,
) -> None:
    """Run on HotpotQA."""
    from corpora.datasets.convert import convert, pool
    from corpora.questions import read_questions, select
    from signatures.common.files import sha256_file

    files = {name: data / "hotpotqa" / name for name in ("hotpot_train_100.json", "hotpot_dev_100.hf.jsonl")}
    parts = [
        convert("hotpotqa", str(path), out / "data" / name.split(".")[0], overwrite=True)
        for name, path in files.items()
    ]
    corpus = out / "data" / "passages.jsonl"
    pool([part.passages_path for part in parts if part.passages_path], corpus, overwrite=True)
    index, retrieve = _index(corpus, out)
    questions = [read_questions(part.questions_path) for part in parts if part.questions_path]
    setting = Setting(
        name="road_hotpotqa",
        trainset=select(questions[0], limit=train),
        devset=select(questions[1], limit=dev),
        retrieve=retrieve,
        index=index,
        files={name: sha256_file(path) for name, path in files.items()},
    )
    _run(setting, lm, out, results, threads=threads, resume=resume)


def _index(corpus: Path, out: Path) -> "tuple[Path, Retriever]":
    from corpora.index.build import build_index
    from corpora.index.open import open_index

    say(f"Index {corpus} (hybrid)")
    folder = out / "index"
    build_index(corpus, folder, retriever="hybrid", resume=folder.exists(), progress=True)
    return folder, open_index(folder, corpus)


def _run(setting: Setting, lm: str, out: Path, results: Path, *, threads: int, resume: bool) -> None:
    """Compile and evaluate all programs, and write the result file."""
    from experiments.pipeline.setup import open_lm
    from experiments.runs.config import LMConfig
    from experiments.runs.files import write_json
    from experiments.runs.provenance import portable, provenance
    from programs.catalog import build

    connection = open_lm(LMConfig(lm))
    students = {name: build(name, setting.retrieve, **knobs) for name, knobs in KNOBS.items()}
    _estimate(list(students.values()), setting, connection, threads)
    started, programs = time.monotonic(), {}
    versions: dict[str, str] = {}
    for name, student in students.items():
        programs[name], versions = _compile_and_evaluate(
            name, student, setting, connection, out=out / name, threads=threads, resume=resume
        )
    record = {
        **provenance("experiments.papers.compile_and_evaluate", connection),
        "retriever": setting.retrieve.fingerprint,
        "files": setting.files,
        "train": len(setting.trainset),
        "dev": len(setting.devset),
        "threads": threads,
        "versions": versions,
        "seconds": round(time.monotonic() - started),
        "programs": programs,
    }
    path = results / f"{setting.name}_{re.sub('[/:]', '_', portable(connection.id))}.json"
    write_json(path, portable(record))
    say(f"Written: {path} ({record['seconds']} s)")


def _compile_and_evaluate(
    name: str,
    student: "dspy.Module",
    setting: Setting,
    connection: "Connection",
    *,
    out: Path,
    threads: int,
    resume: bool,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a program's part of the result file, and the library versions of its artifact; print its scores."""
    from experiments.pipeline.before_after import before_after
    from experiments.pipeline.compiling.config import CompileConfig
    from experiments.runs.config import RunConfig
    from optimizers.metrics.catalog import get_metric

    outcome = before_after(
        student,
        setting.trainset,
        setting.devset,
        RunConfig(metrics=METRICS, threads=threads),
        CompileConfig(metric=get_metric("f1[hotpot]"), accept=0.5, max_demos=2, threads=threads, index=setting.index),
        connection=connection,
        out=out,
        resume=resume,
        on_step=say,
    )
    question = setting.devset[0].question
    with connection.use():
        prediction = outcome.loaded(question=question)
    _show(outcome.comparison)
    result = {
        "knobs": KNOBS[name],
        "before": _without_folder(outcome.before),
        "after": _without_folder(outcome.after),
        "comparison": outcome.comparison.as_dict(),
        "optimizer": outcome.artifact.optimizer,
        "hops": {run.name: hop_counts(run) for run in outcome.folders},
        "answered": {
            "question": question,
            "answer": prediction.answer,
            "hops": len(prediction.hops),
            "cited": prediction.citations,
        },
    }
    return result, outcome.artifact.versions


def _without_folder(summary: "RunSummary") -> dict[str, Any]:
    return {name: value for name, value in summary.as_dict().items() if name != "folder"}


def hop_counts(run: Path) -> dict[str, int]:
    """Return the number of questions of a run by their number of hops."""
    from collections import Counter

    from experiments.runs.files import read_rows

    counts = Counter(len(row["hops"]) for row in read_rows(run))
    return {str(hops): counts[hops] for hops in sorted(counts)}


def _estimate(students: "Sequence[dspy.Module]", setting: Setting, connection: "Connection", threads: int) -> None:
    """Print the maximum of LM calls, and their time at the rate of a short measurement."""
    from experiments.papers.lm_speed import measure_calls_per_second

    questions = 2 * len(setting.devset) + len(setting.trainset)
    calls = sum(student.max_calls() for student in students) * questions
    rate = measure_calls_per_second(connection, setting.retrieve, setting.trainset, threads=threads)
    minutes = calls / rate / 60
    say(f"Estimate: at most {calls} LM calls; at {rate:.1f} calls/s (measured) at most {minutes:.0f} minutes")


def _show(comparison: Any) -> None:
    from rich.console import Console

    Console().print(comparison.as_table())


if __name__ == "__main__":
    run_command(app, "compile_and_evaluate")
