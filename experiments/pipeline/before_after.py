"""The heart of every experiment with an optimizer: evaluate, compile, freeze, load, evaluate again, compare."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from experiments.analysis.compare import Comparison
    from experiments.analysis.summary import RunSummary
    from programs.artifact import Artifact
    from programs.lms.connect import Connection


@dataclass(frozen=True)
class BeforeAfter:
    """What compilation did to a program.

    Args:
        before: Scores of the program as it was.
        after: Scores of the artifact, loaded.
        comparison: The two, paired.
        artifact: Description of the frozen program.
        loaded: The frozen program, loaded.
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
    *,
    connection: "Connection",
    metrics: Sequence[str],
    out: Path,
    optimizer: str = "bootstrap",
    learn: str = "f1[hotpot]",
    accept: float = 0.5,
    max_demos: int = 2,
    threads: int = 8,
    index: Path | None = None,
    resume: bool = False,
    step: Callable[[str], None] = lambda text: None,
) -> BeforeAfter:
    """Score `student` on `devset`, compile it on `trainset`, and score what was frozen and loaded.

    Args:
        student: The program.
        trainset: Questions demonstrations are made from.
        devset: Questions both are scored on.
        connection: The LM.
        metrics: What is scored, the first shown while it runs.
        out: Folder for the artifact and both runs.
        optimizer: A name of `optimizers.teleprompters.OPTIMIZERS`.
        learn: The metric that decides what becomes a demonstration.
        accept: The score of `learn` from which on it does.
        max_demos: Demonstrations per predictor at most.
        threads: Questions worked on side by side.
        index: Folder of the index, remembered in the artifact.
        resume: Go on with what an interrupted call left in `out`.
        step: Told the name of each step as it begins.
    """
    from experiments.analysis.compare import compare_runs
    from experiments.pipeline.compile import compile_program
    from experiments.pipeline.evaluate import evaluate
    from optimizers.metrics.catalog import get_metric
    from programs.artifact import load, program_name

    name, lm = program_name(student), connection.id
    folders = out / "before", out / "after"
    settings: dict[str, Any] = {"connection": connection, "metrics": metrics, "threads": threads}
    settings["resume_command"] = "run the same command again (with --resume where it has one)"

    step(f"Evaluate {name} as it is: {len(devset)} questions, LM {lm}")
    before = evaluate(student, devset, folder=folders[0], resume=resume and folders[0].exists(), **settings)

    rule = f", {learn} >= {accept} makes a demonstration" if optimizer == "bootstrap" else ""
    step(f"Compile {name} ({optimizer}): {len(trainset)} training questions{rule}")
    artifact = compile_program(
        student,
        trainset,
        connection=connection,
        optimizer=optimizer,
        metric=get_metric(learn),
        accept=accept,
        max_demos=max_demos,
        threads=threads,
        out=out / "artifact",
        index=index,
        resume=resume,
    )

    step(f"Load the artifact and evaluate it (demonstrations: {artifact.optimizer['accepted']})")
    loaded = load(out / "artifact", getattr(student, "retrieve", None), connection=connection)
    after = evaluate(
        loaded,
        devset,
        folder=folders[1],
        artifact=out / "artifact",
        resume=resume and folders[1].exists(),
        **settings,
    )
    return BeforeAfter(before, after, compare_runs(list(folders)), artifact, loaded, folders)
