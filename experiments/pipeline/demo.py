"""The demo: index the demo corpus, evaluate, compile, freeze, load, evaluate again, answer one question, report."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.pipeline.setup import SMALL, SMALL_PROGRAM, SMALL_RERANK, SMALL_RETRIEVER
from experiments.runs.config import RunConfig
from optimizers.metrics.catalog import get_metric
from programs.lms.spec import LMSpec
from programs.parts.prediction import completed
from signatures.common.errors import UserError

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from experiments.analysis.compare import RunComparison
    from experiments.analysis.summary import RunSummary
    from experiments.pipeline.compiling.config import CompileConfig
    from programs.artifact import Artifact
    from programs.lms.calls.budget import Budget
    from programs.lms.connect import Connection


DEMO_CORPUS = Path(__file__).parents[2] / "corpora" / "demo"
METRICS = ("em", "f1[hotpot]", "all_gold@5")
QUESTION = "Where was the chief engineer of the Corrant Coast Line born?"
MULTI_HOP = "self_ask"  # takes a question apart, and shows how
_MARK = ".verihop-demo"


@dataclass(frozen=True)
class DemoResult:
    """The results of the demo.

    Args:
        comparison: The program before and after compilation, on the same dev questions.
        prediction: The loaded program's answer to `QUESTION`.
        by_hops: The answer of `MULTI_HOP` to it, with its hops.
        artifact: Folder of the compiled program.
    """

    comparison: "RunComparison"
    prediction: "dspy.Prediction"
    by_hops: "dspy.Prediction"
    artifact: Path
    report: Path


def run_demo(
    out: Path,
    lm: LMSpec,
    *,
    threads: int,
    on_step: Callable[[str], None],
    budget: "Budget | None" = None,
    progress: bool = True,
) -> DemoResult:
    """Run the demo in `out` and return its results; files of an earlier demo are replaced.

    Args:
        out: Folder for everything the demo writes.
        threads: Questions answered in parallel.
        on_step: Called with the title of each step when it starts.
        budget: Limits on the LM calls of all steps together.
        progress: Show estimates and bars on stderr.

    Raises:
        UserError: `out` contains something other than an earlier demo.
        BudgetExceeded: The budget does not last for all steps.
    """
    from corpora.index.build import build_index
    from corpora.index.open import open_index
    from corpora.questions import read_questions, select
    from corpora.retrievers.rerank import open_reranker
    from experiments.analysis.report.html import write_report
    from experiments.pipeline.compiling.config import CompileConfig
    from experiments.pipeline.setup import open_lm
    from programs.catalog import build

    connection = open_lm(lm, budget)  # before anything is written: the id may be wrong
    _clear(out)
    on_step("Index the demo corpus (BM25 and MiniLM vectors, fused)")
    build_index(DEMO_CORPUS / "passages.jsonl", out / "index", retriever="hybrid", progress=progress)
    retrieve = open_reranker(open_index(out / "index", retriever=SMALL_RETRIEVER), SMALL_RERANK)
    questions = read_questions(DEMO_CORPUS / "questions.jsonl")
    # Demonstrations in the LM's own words: on these questions labelled ones lower the scores of the trained LM.
    compilation = CompileConfig(
        metric=get_metric("f1[hotpot]"),
        optimizer="bootstrap",
        accept=0.5,
        max_demos=4,
        threads=threads,
        index=out / "index",
        provenance={"retriever": SMALL_RETRIEVER, "rerank": SMALL_RERANK},
    )
    result = before_after(
        build(SMALL_PROGRAM, retrieve, preset=SMALL),
        select(questions, split="train"),
        select(questions, split="dev"),
        RunConfig(metrics=METRICS, threads=threads),
        compilation,
        connection=connection,
        out=out,
        on_step=on_step,
        progress=progress,
    )
    on_step("Answer one question with the loaded program, with cited passages")
    with connection.use():
        prediction = result.loaded(question=QUESTION)
        on_step(f"Answer it hop by hop with {MULTI_HOP}")
        by_hops = completed(build(MULTI_HOP, retrieve, preset=SMALL)(question=QUESTION))
    report = write_report(list(result.folders), out / "report.html")
    return DemoResult(result.comparison, prediction, by_hops, out / "artifact", report)


def _clear(out: Path) -> None:
    """Empty a folder of an earlier demo; refuse any other folder that is not empty."""
    if out.exists() and any(out.iterdir()) and not (out / _MARK).exists():
        raise UserError(f"{out} contains something other than an earlier demo. Choose another folder.")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / _MARK).touch()


@dataclass(frozen=True)
class BeforeAfter:
    """A program before and after compilation."""

    before: "RunSummary"
    after: "RunSummary"
    comparison: "RunComparison"
    artifact: "Artifact"
    loaded: "dspy.Module"
    folders: tuple[Path, Path]


def before_after(
    student: "dspy.Module",
    trainset: "Sequence[Question]",
    devset: "Sequence[Question]",
    run: "RunConfig",
    compilation: "CompileConfig",
    *,
    connection: "Connection",
    out: Path,
    on_step: Callable[[str], None],
    progress: bool,
) -> BeforeAfter:
    """Evaluate `student` on `devset`, compile it on `trainset`, load the artifact and evaluate it.

    Args:
        trainset: Questions to optimize on.
        devset: Questions to evaluate on.
        run: Metrics and settings of both evaluations.
        compilation: Optimizer, metric and settings of the compilation.
        out: Folder for the artifact and both runs.
        on_step: Called with the title of each step when it starts.
        progress: Show estimates and bars on stderr.

    Raises:
        BudgetExceeded: The budget of the connection does not last for all steps; what was done is kept.
    """
    from experiments.analysis.compare import compare_runs
    from experiments.pipeline.compile import compile_program
    from experiments.pipeline.corpus_notes import no_gain_note
    from experiments.pipeline.evaluate import evaluate
    from programs.artifact import load, program_name

    name, lm = program_name(student), connection.id
    folders = out / "before", out / "after"
    optimizer, metric = compilation.optimizer, compilation.metric.name

    on_step(f"Evaluate the uncompiled {name}: {len(devset)} questions, LM {lm}")
    shared: dict[str, Any] = {"connection": connection, "progress": progress}
    before = evaluate(student, devset, run, folder=folders[0], **shared)
    _go_on(before.stopped)

    rule = f", {metric} >= {compilation.accept} makes a demonstration" if optimizer == "bootstrap" else ""
    on_step(f"Compile {name} ({optimizer}): {len(trainset)} training questions{rule}")
    target = out / "artifact"
    artifact = compile_program(student, trainset, [], compilation, out=target, **shared)
    _go_on(artifact.optimizer["stopped"])

    on_step(f"Load the artifact and evaluate it (demonstrations: {artifact.optimizer['accepted']})")
    if note := no_gain_note(lm):
        on_step(note)
    loaded = load(target, getattr(student, "retrieve", None), connection=connection)
    compiled_run = replace(run, artifact=target)
    after = evaluate(loaded, devset, compiled_run, folder=folders[1], **shared)
    _go_on(after.stopped)
    return BeforeAfter(before, after, compare_runs(list(folders)), artifact, loaded, folders)


def _go_on(stopped: str | None) -> None:
    """Raise BudgetExceeded if a step was stopped: what follows would compare parts of runs."""
    from programs.lms.calls.budget import BudgetExceeded

    if stopped:
        raise BudgetExceeded(stopped.removeprefix(f"{BudgetExceeded.__name__}: "))
