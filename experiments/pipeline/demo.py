"""The whole road on the demo corpus: index, evaluate, compile, freeze, load, evaluate again, answer, report."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from signatures.common.errors import UserError

if TYPE_CHECKING:
    import dspy

    from experiments.analysis.compare import Comparison

DEMO_CORPUS = Path(__file__).parents[2] / "corpora" / "demo"
# Small, so that the demo ends in minutes on two cores.
KNOBS: dict[str, Any] = {"k": 4, "batch_size": 2, "max_hops": 2}
METRICS = ("em", "f1[hotpot]", "all_gold@5")
_MARK = ".verihop-demo"


@dataclass(frozen=True)
class DemoResult:
    """What the demo made.

    Args:
        comparison: The program before and after compilation, on the same dev questions.
        question: What was asked at the end.
        prediction: The loaded program's answer to it.
        artifact: Folder of the frozen program.
        report: The HTML report.
    """

    comparison: "Comparison"
    question: str
    prediction: "dspy.Prediction"
    artifact: Path
    report: Path


def run_demo(out: Path, *, lm: str, threads: int, step: Callable[[str], None]) -> DemoResult:
    """Walk the whole road in `out` and return what came of it; an earlier demo's files there are replaced.

    Args:
        out: Folder for everything the demo makes.
        lm: Id of the LM.
        threads: Questions worked on side by side.
        step: Told the name of each step as it begins.

    Raises:
        UserError: `out` holds something else than an earlier demo.
    """
    from corpora.index.build import build_index
    from corpora.index.open import open_index
    from corpora.questions import read_questions, select
    from experiments.analysis.report.html import write_report
    from experiments.pipeline.before_after import before_after
    from experiments.pipeline.setup import open_lm
    from programs.catalog import build

    connection = open_lm(lm)  # before anything is written: the id may be wrong
    _clear(out)
    step("Index the demo corpus (BM25 and MiniLM vectors, fused)")
    build_index(DEMO_CORPUS / "passages.jsonl", out / "index", retriever="hybrid", progress=True)
    retrieve = open_index(out / "index")
    questions = read_questions(DEMO_CORPUS / "questions.jsonl")
    result = before_after(
        build("genground", retrieve, **KNOBS),
        select(questions, split="train"),
        select(questions, split="dev"),
        connection=connection,
        metrics=METRICS,
        # The demo's questions come with their steps, from which a small LM learns more than from its own few successes.
        optimizer="labeled",
        max_demos=6,
        out=out,
        threads=threads,
        index=out / "index",
        step=step,
    )
    step("Answer one question with the loaded program: the best one with cited passages")
    question = _best(result.folders[1])
    with connection.use():
        prediction = result.loaded(question=question)
    report = write_report(list(result.folders), out / "report.html")
    return DemoResult(result.comparison, question, prediction, out / "artifact", report)


def _best(run: Path) -> str:
    """Return the question of a run that shows most: one with cited passages, and among those the highest F1."""
    from experiments.runs.files import read_rows

    best = max(read_rows(run), key=lambda row: (bool(row["citations"]), row["scores"]["f1[hotpot]"] or 0, row["id"]))
    return str(best["question"])


def _clear(out: Path) -> None:
    """Empty the demo's own folder; any other folder is left alone."""
    if out.exists() and any(out.iterdir()) and not (out / _MARK).exists():
        raise UserError(f"{out} holds something else than an earlier demo. Choose another folder with --out.")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / _MARK).touch()
