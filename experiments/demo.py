"""The whole road on the demo corpus: index, evaluate, compile, freeze, load, evaluate again, answer, report."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from signatures.errors import UserError

if TYPE_CHECKING:
    import dspy

    from experiments.compare import Comparison

DEMO_CORPUS = Path(__file__).parents[1] / "corpora" / "demo"
QUESTION = "Where was the chief engineer of the Corrant Coast Line born?"
KNOBS = {"k": 4, "batch_size": 2, "max_hops": 2}  # small, so that the demo ends in minutes on two cores
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
    from corpora.index import build_index, open_index
    from corpora.questions import read_questions, select
    from experiments.compare import compare_runs
    from experiments.compiling import compile_program
    from experiments.evaluate import evaluate
    from experiments.opening import open_lm
    from experiments.report.html import write_report
    from optimizers.metrics.catalog import get_metric
    from programs.artifact import load
    from programs.catalog import build

    _clear(out)
    step("1. Index the demo corpus (BM25 and MiniLM vectors, fused)")
    build_index(DEMO_CORPUS / "passages.jsonl", out / "index", retriever="hybrid", progress=True)
    retrieve = open_index(out / "index")
    questions = read_questions(DEMO_CORPUS / "questions.jsonl")
    train, dev = select(questions, split="train"), select(questions, split="dev")
    connection = open_lm(lm)

    step(f"2. Evaluate GenGround as it is on {len(dev)} questions ({lm})")
    student = build("genground", retrieve, **KNOBS)
    settings = {"connection": connection, "metrics": METRICS, "threads": threads}
    evaluate(student, dev, folder=out / "runs" / "before", **settings)

    step(f"3. Compile it on {len(train)} training questions and freeze it")
    artifact = compile_program(
        student,
        train,
        connection=connection,
        metric=get_metric("f1[hotpot]"),
        accept=0.5,
        max_demos=2,
        threads=threads,
        out=out / "artifact",
        provenance={"index": str(out / "index")},
    )
    step(f"4. Load the artifact and evaluate it (demonstrations: {artifact.optimizer['accepted']})")
    loaded = load(out / "artifact", retrieve, connection=connection)
    evaluate(loaded, dev, folder=out / "runs" / "after", artifact=out / "artifact", **settings)

    step("5. Answer one question with the loaded program")
    with connection.use():
        prediction = loaded(question=QUESTION)
    runs = [out / "runs" / "before", out / "runs" / "after"]
    report = write_report(runs, out / "report.html")
    return DemoResult(compare_runs(runs), QUESTION, prediction, out / "artifact", report)


def _clear(out: Path) -> None:
    """Empty the demo's own folder; any other folder is left alone."""
    if out.exists() and any(out.iterdir()) and not (out / _MARK).exists():
        raise UserError(f"{out} holds something else than an earlier demo. Choose another folder with --out.")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / _MARK).touch()
