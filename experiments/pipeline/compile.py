"""Compile a program and freeze it into an artifact: optimize, score on validation questions, freeze.

A compilation can be resumed after a kill because LM replies are cached on disk: the optimizers here are deterministic,
so the same call sends the same prompts in the same order, and those answered before cost nothing. A checkpoint next to
the artifact records the request, so that only the same request can resume it.
"""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.pipeline.compile_checkpoint import compile_checkpoint, request_hash
from experiments.pipeline.cost_estimate import estimate
from experiments.pipeline.warm_up import warm_up
from experiments.runs.config import RunConfig, describe_lm, describe_program
from experiments.runs.files import git_revision, read_rows
from programs.lms.calls.control import controlled
from signatures.common.errors import UserError
from signatures.common.terminal import open_console

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from optimizers.metrics.catalog import Metric
    from optimizers.teleprompters.compile import Compiled
    from optimizers.teleprompters.task import Task
    from programs.artifact import Artifact
    from programs.lms.connect import Connection


@dataclass(frozen=True, kw_only=True)
class CompileConfig:
    """How a program is compiled, and further data for its artifact.

    Args:
        metric: What the optimizer maximizes; also scored on the validation questions.
        optimizer: A name of `optimizers.teleprompters.catalog.OPTIMIZERS`.
        accept: Lowest score of a training question that makes it a demonstration, in [0, 1].
        max_demos: Maximum number of demonstrations per predictor.
        seed: Seed of the order of the training questions and of every random choice.
        threads: Questions in progress at a time.
        index: Folder of the index; the artifact stores its path relative to itself.
        provenance: Further data for the artifact, such as paths of question files.

    Raises:
        UserError: A judge LM decides the metric; a compilation has none.
    """

    metric: "Metric"
    optimizer: str = "bootstrap"
    accept: float = 1.0
    max_demos: int = 4
    seed: int = 0
    threads: int = 8
    index: Path | None = None
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.metric.judged:
            raise UserError(
                f"{self.metric.name} is decided by a judge LM, which a compilation lacks: optimize another."
            )


def compile_program(
    student: "dspy.Module",
    trainset: "Sequence[Question]",
    valset: "Sequence[Question]",
    config: CompileConfig,
    *,
    connection: "Connection",
    out: Path,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
) -> "Artifact":
    """Compile `student`, score it on `valset` unless that is empty, and freeze it to `out`.

    Args:
        student: The program; it is not changed.
        trainset: Questions to optimize on.
        valset: Questions the compiled program is scored on; the scores are stored in the artifact.
        config: Optimizer, metric and their settings.
        connection: The LM of teacher and student.
        out: Folder of the artifact.
        resume: Continue a stopped compilation into `out`; a finished one is returned as it is.
        overwrite: Replace an existing artifact.
        progress: Show estimate and progress on stderr.

    Raises:
        UserError: `out` exists, another compilation into it was stopped or is running, or there are no examples to
            learn from.
        BudgetExceeded: The budget is spent; the replies so far are cached.
    """
    from optimizers.teleprompters.catalog import get_optimizer
    from programs.artifact import check_freezable, read_artifact

    get_optimizer(config.optimizer)
    check_freezable(student)
    data = {"train": _describe(trainset), "val": _describe(valset)}
    request = _request(student, config, data, connection)
    with compile_checkpoint(out, request, resume=resume, overwrite=overwrite) as checkpoint:
        if checkpoint is None:
            return read_artifact(out)
        warm_up(student, connection)
        started = time.monotonic()
        compiled = _optimize(student, _task(trainset, valset, config), config.optimizer, connection, progress=progress)
        cost = checkpoint.cost(round(time.monotonic() - started, 1))
        folder = checkpoint.folder / "val"
        scores = _score(compiled.program, valset, config, connection, folder, resume=resume, progress=progress)
        return _freeze(
            compiled,
            out,
            overwrite=overwrite,
            connection=connection,
            data={**data, "index": _relative_path(config.index, out), **config.provenance},
            optimizer={"cost": cost, "request_sha256": request_hash(request)},
            metric={"name": config.metric.name, "definition": config.metric.definition, **scores},
        )


def _request(
    student: "dspy.Module", config: CompileConfig, data: dict[str, Any], connection: "Connection"
) -> dict[str, Any]:
    """Return everything that decides the result of a compilation."""
    settings = {"accept": config.accept, "max_demos": config.max_demos, "seed": config.seed}
    request = {
        "program": describe_program(student),
        "lm": describe_lm(connection),
        "corpus": getattr(getattr(student, "retrieve", None), "fingerprint", None),
        "optimizer": {"name": config.optimizer, **settings},
        "metric": {"name": config.metric.name, "definition": config.metric.definition},
        "data": data,
    }
    return json.loads(json.dumps(request, default=str))  # as read back from the file, so that they can be compared


def _describe(questions: "Sequence[Question]") -> dict[str, Any]:
    from corpora.questions import split_hash

    return {"n": len(questions), "sha256": split_hash(questions)}


def _task(trainset: "Sequence[Question]", valset: "Sequence[Question]", config: CompileConfig) -> "Task":
    from optimizers.examples import to_examples
    from optimizers.teleprompters.task import Task

    return Task(
        trainset=to_examples(trainset),
        valset=to_examples(valset),
        score=config.metric,
        accept=config.accept,
        max_demos=config.max_demos,
        seed=config.seed,
        threads=config.threads,
    )


def _relative_path(index: Path | None, out: Path) -> str | None:
    """Return the path of the index relative to the artifact, so that both can be moved together."""
    if index is None:
        return None
    try:
        return os.path.relpath(index.resolve(), out.resolve())
    except ValueError:  # on another drive
        return str(index.resolve())


def _optimize(
    student: "dspy.Module", task: "Task", optimizer: str, connection: "Connection", *, progress: bool
) -> "Compiled":
    from dataclasses import replace

    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from optimizers.teleprompters.compile import compile
    from programs.lms.calls.budget import BudgetExceeded

    console = open_console(stderr=True, quiet=not progress)
    if optimizer != "labeled":
        console.print(str(estimate(len(task.trainset), student.max_calls(), threads=task.threads)), highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as bar:
        line = bar.add_task(f"Compile ({optimizer})", total=len(task.trainset))

        def report(tried: int, accepted: int) -> None:
            bar.update(line, completed=tried, description=f"Compile ({optimizer}), {accepted} accepted")

        with connection.use(), controlled(lambda text: console.print(text, markup=False, highlight=False)):
            compiled = compile(student, replace(task, progress=report), optimizer=optimizer)
    if compiled.stopped:
        raise BudgetExceeded(compiled.stopped)
    return compiled


def _score(
    program: "dspy.Module",
    valset: "Sequence[Question]",
    config: CompileConfig,
    connection: "Connection",
    folder: Path,
    *,
    resume: bool,
    progress: bool,
) -> dict[str, Any]:
    """Return the metric's mean, interval and per-question scores on the validation questions; {} if there are none."""
    if not valset:
        return {}
    from experiments.pipeline.evaluate import evaluate

    summary = evaluate(
        program,
        valset,
        RunConfig(metrics=[config.metric], threads=config.threads),
        connection=connection,
        folder=folder,
        resume=resume and folder.exists(),
        progress=progress,
    )
    if summary.stopped:
        raise UserError(f"Scoring the compiled program stopped ({summary.stopped}); resume the compilation.")
    scores = {row["id"]: row["scores"][config.metric.name] for row in read_rows(folder)}
    return {**summary.metrics[config.metric.name].as_dict(), "errors": summary.errors, "scores": scores}


def _freeze(
    compiled: "Compiled",
    out: Path,
    *,
    overwrite: bool,
    connection: "Connection",
    data: dict[str, Any],
    optimizer: dict[str, Any],
    metric: dict[str, Any],
) -> "Artifact":
    from programs.artifact import freeze, lm_record

    budget = getattr(connection.lm, "budget", None)
    return freeze(
        compiled.program,
        out,
        overwrite=overwrite,
        lm=lm_record(connection),
        corpus=getattr(getattr(compiled.program, "retrieve", None), "fingerprint", None),
        data=data,
        optimizer={
            "name": compiled.optimizer,
            "arguments": compiled.arguments,
            "accepted": compiled.accepted,
            "tried": compiled.tried,
            "failed": compiled.failed,
            "budget": budget.limits if budget and budget.limited else None,
            **optimizer,
        },
        metric=metric,
        revision=git_revision(),
    )
