"""From a program and questions to a frozen artifact: optimize, score, freeze; can be taken up after a kill.

What makes it resumable is the LM cache on disk: optimizers here are deterministic, so the same command asks the same
prompts in the same order, and those answered before the kill cost nothing. A note beside the artifact says what was
being made, so that another command cannot finish it by mistake; the artifact keeps a hash of it, so that a finished
one is known again.
"""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.pipeline.compile_checkpoint import request_hash, work_note
from experiments.pipeline.cost_estimate import estimate
from experiments.runs.config import describe_lm, describe_program
from experiments.runs.files import git_revision, read_rows
from signatures.common.errors import UserError

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from optimizers.metrics.catalog import Metric
    from optimizers.teleprompters import Compiled, Task
    from programs.artifact import Artifact
    from programs.lms.connect import Connection


def compile_program(
    student: "dspy.Module",
    trainset: "Sequence[Question]",
    valset: "Sequence[Question]" = (),
    *,
    connection: "Connection",
    metric: "Metric",
    out: Path,
    optimizer: str = "bootstrap",
    accept: float = 1.0,
    max_demos: int = 4,
    seed: int = 0,
    threads: int = 8,
    index: Path | None = None,
    provenance: dict[str, Any] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
) -> "Artifact":
    """Compile `student`, score it on `valset` where there is one, and freeze it to `out`.

    Args:
        student: The program; it is not changed.
        trainset: Questions demonstrations are made from.
        valset: Questions the compiled program is scored on; the scores go into the artifact.
        connection: The LM that teacher and student run on.
        metric: What better means.
        out: Folder of the artifact.
        optimizer: A name of `optimizers.teleprompters.OPTIMIZERS`.
        accept: The lowest score with which a training question becomes a demonstration, in [0, 1].
        max_demos: Demonstrations per predictor at most.
        seed: Order of the training questions and every random choice.
        threads: Questions worked on side by side.
        index: Folder of the index; the artifact remembers the way there from its own folder.
        provenance: What else the artifact shall remember, such as paths of question files.
        resume: Go on with a compilation into `out` that was stopped; one that was finished is left as it is.
        overwrite: Replace an artifact that stands there.
        progress: Show estimate and progress on stderr.

    Raises:
        UserError: `out` is taken, another compilation into it was stopped or is under way, or there is nothing to
            learn from.
        BudgetExceeded: The budget is spent; the replies so far are in the cache.
    """
    from optimizers.examples import to_examples
    from optimizers.teleprompters import Task, check_optimizer
    from programs.artifact import check_freezable, read_artifact

    check_optimizer(optimizer)
    check_freezable(student)
    described = {"train": _describe(trainset), "val": _describe(valset)}
    request = {
        "program": describe_program(student),
        "lm": describe_lm(connection),
        "corpus": getattr(getattr(student, "retrieve", None), "fingerprint", None),
        "optimizer": {"name": optimizer, "accept": accept, "max_demos": max_demos, "seed": seed},
        "metric": {"name": metric.name, "definition": metric.definition},
        "data": described,
    }
    request = json.loads(json.dumps(request, default=str))  # as it will be read back, so that comparing is fair
    task = Task(
        trainset=to_examples(trainset),
        valset=to_examples(valset),
        score=metric,
        accept=accept,
        max_demos=max_demos,
        seed=seed,
        threads=threads,
    )
    with work_note(out, request, resume=resume, overwrite=overwrite) as (work, meter):
        if work is None:
            return read_artifact(out)
        started = time.monotonic()
        compiled = _optimize(student, task, optimizer, connection=connection, progress=progress)
        cost = meter.counts()
        seconds = round(time.monotonic() - started, 1)
        scores = _score(compiled.program, valset, connection, metric, work / "val", threads, resume, progress)
        return _freeze(
            compiled,
            out,
            overwrite=overwrite,
            connection=connection,
            data={**described, "index": _way_to(index, out), **(provenance or {})},
            cost={**cost, "seconds": seconds},
            request=request,
            metric={"name": metric.name, "definition": metric.definition, **scores},
        )


def _way_to(index: Path | None, out: Path) -> str | None:
    """Return the path of the index as seen from the artifact: the two may move together, and be asked from anywhere."""
    if index is None:
        return None
    try:
        return os.path.relpath(index.resolve(), out.resolve())
    except ValueError:  # on another drive
        return str(index.resolve())


def _describe(questions: "Sequence[Question]") -> dict[str, Any]:
    from corpora.questions import split_hash

    return {"n": len(questions), "sha256": split_hash(questions)}


def _optimize(
    student: "dspy.Module", task: "Task", optimizer: str, *, connection: "Connection", progress: bool
) -> "Compiled":
    from dataclasses import replace

    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from optimizers.teleprompters import compile

    console = Console(stderr=True, quiet=not progress)
    if optimizer != "labeled":
        console.print(str(estimate(len(task.trainset), student.max_calls(), threads=task.threads)), highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as bar:
        line = bar.add_task(f"Compile ({optimizer})", total=len(task.trainset))

        def report(tried: int, accepted: int) -> None:
            bar.update(line, completed=tried, description=f"Compile ({optimizer}), {accepted} accepted")

        with connection.use():
            return compile(student, replace(task, progress=report), optimizer=optimizer)


def _score(
    program: "dspy.Module",
    valset: "Sequence[Question]",
    connection: "Connection",
    metric: "Metric",
    folder: Path,
    threads: int,
    resume: bool,
    progress: bool,
) -> dict[str, Any]:
    """Return the metric's mean, interval and per-question scores on the validation questions; {} without any."""
    if not valset:
        return {}
    from experiments.pipeline.evaluate import evaluate

    summary = evaluate(
        program,
        valset,
        connection=connection,
        metrics=[metric],
        folder=folder,
        threads=threads,
        resume=resume and folder.exists(),
        progress=progress,
        resume_command="the same command with --resume",
    )
    if summary.stopped:
        raise UserError(f"Scoring the compiled program stopped ({summary.stopped}); go on with --resume.")
    scores = {row["id"]: row["scores"][metric.name] for row in read_rows(folder)}
    return {**summary.metrics[metric.name].as_dict(), "errors": summary.errors, "scores": scores}


def _freeze(
    compiled: "Compiled",
    out: Path,
    *,
    overwrite: bool,
    connection: "Connection",
    data: dict[str, Any],
    cost: dict[str, float],
    metric: dict[str, Any],
    request: dict[str, Any],
) -> "Artifact":
    from programs.artifact import freeze, lm_record

    retrieve = getattr(compiled.program, "retrieve", None)
    budget = getattr(connection.lm, "budget", None)
    return freeze(
        compiled.program,
        out,
        overwrite=overwrite,
        lm=lm_record(connection),
        corpus=getattr(retrieve, "fingerprint", None),
        data=data,
        optimizer={
            "name": compiled.optimizer,
            "arguments": compiled.arguments,
            "accepted": compiled.accepted,
            "tried": compiled.tried,
            "failed": compiled.failed,
            "budget": budget.limits if budget else None,
            "cost": cost,
            "request_sha256": request_hash(request),
        },
        metric=metric,
        revision=git_revision(),
    )
