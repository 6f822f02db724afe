"""Measure what compilation changes: evaluate, compile, freeze, load, evaluate again, compare."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from experiments.analysis.compare import Comparison
    from experiments.analysis.summary import RunSummary
    from experiments.pipeline.compiling.config import CompileConfig
    from experiments.runs.config import RunConfig
    from programs.artifact import Artifact
    from programs.lms.connect import Connection


@dataclass(frozen=True)
class BeforeAfter:
    """A program before and after compilation.

    Args:
        before: Scores of the uncompiled program.
        after: Scores of the artifact, loaded.
        comparison: Both, paired.
        artifact: Description of the compiled program.
        loaded: The compiled program, loaded.
        folders: Run folders, before and after.
    """

    before: "RunSummary"
    after: "RunSummary"
    comparison: "Comparison"
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
    resume: bool = False,
    on_step: Callable[[str], None] = lambda text: None,
    progress: bool = True,
) -> BeforeAfter:
    """Evaluate `student` on `devset`, compile it on `trainset`, load the artifact and evaluate it.

    Args:
        student: The program.
        trainset: Questions to optimize on.
        devset: Questions to evaluate on.
        run: Metrics and settings of both evaluations.
        compilation: Optimizer, metric and settings of the compilation.
        connection: The LM.
        out: Folder for the artifact and both runs.
        resume: Continue an interrupted call with the same `out`.
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
    resumed = resume and folders[0].exists()
    shared: dict[str, Any] = {"connection": connection, "progress": progress}
    before = evaluate(student, devset, run, folder=folders[0], resume=resumed, **shared)
    _go_on(before.stopped)

    rule = f", {metric} >= {compilation.accept} makes a demonstration" if optimizer == "bootstrap" else ""
    on_step(f"Compile {name} ({optimizer}): {len(trainset)} training questions{rule}")
    target = out / "artifact"
    artifact = compile_program(student, trainset, [], compilation, out=target, resume=resume, **shared)
    _go_on(artifact.optimizer["stopped"])

    on_step(f"Load the artifact and evaluate it (demonstrations: {artifact.optimizer['accepted']})")
    if note := no_gain_note(lm):
        on_step(note)
    loaded = load(target, getattr(student, "retrieve", None), connection=connection)
    compiled_run = replace(run, artifact=target)
    resumed = resume and folders[1].exists()
    after = evaluate(loaded, devset, compiled_run, folder=folders[1], resume=resumed, **shared)
    _go_on(after.stopped)
    return BeforeAfter(before, after, compare_runs(list(folders)), artifact, loaded, folders)


def _go_on(stopped: str | None) -> None:
    """Raise BudgetExceeded if a step was stopped: what follows would compare parts of runs."""
    from programs.lms.calls.budget import BudgetExceeded

    if stopped:
        raise BudgetExceeded(stopped.removeprefix(f"{BudgetExceeded.__name__}: "))
