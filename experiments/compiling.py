"""From a program and questions to a frozen artifact: optimize, score, freeze; can be taken up after a kill.

What makes it resumable is the LM cache on disk: optimizers here are deterministic, so the same command asks the same
prompts in the same order, and those answered before the kill cost nothing. A note beside the artifact says what was
being made, so that another command cannot finish it by mistake.
"""

import contextlib
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.estimate import estimate
from experiments.runs import git_revision, read_rows, write_json
from signatures.errors import UserError

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
        provenance: What else the artifact shall remember, such as paths of question files and index.
        resume: Go on with a compilation into `out` that was stopped.
        overwrite: Replace an artifact that stands there.
        progress: Show estimate and progress on stderr.

    Raises:
        UserError: `out` is taken, another compilation into it was stopped, or there is nothing to learn from.
        BudgetExceeded: The budget is spent; the replies so far are in the cache.
    """
    from optimizers.examples import to_examples
    from optimizers.teleprompters import Task, check_optimizer
    from programs.artifact import program_name
    from programs.parts.knobs import knob_values

    check_optimizer(optimizer)
    described = {"train": _describe(trainset), "val": _describe(valset)}
    request = {
        "program": program_name(student),
        "knobs": knob_values(student),
        "lm": connection.id,
        "optimizer": {"name": optimizer, "accept": accept, "max_demos": max_demos, "seed": seed},
        "metric": metric.name,
        "data": described,
    }
    task = Task(
        trainset=to_examples(trainset),
        valset=to_examples(valset),
        score=metric,
        accept=accept,
        max_demos=max_demos,
        seed=seed,
        threads=threads,
    )
    with _work_note(out, request, resume=resume, overwrite=overwrite) as work:
        started = time.monotonic()
        compiled, cost = _optimize(student, task, optimizer, connection=connection, progress=progress)
        seconds = round(time.monotonic() - started, 1)
        scores = _score(compiled.program, valset, connection, metric, work / "val", threads, resume, progress)
        return _freeze(
            compiled,
            out,
            overwrite=overwrite,
            connection=connection,
            data={**described, **(provenance or {})},
            cost={**cost, "seconds": seconds},
            metric={"name": metric.name, "definition": metric.definition, **scores},
        )


def _describe(questions: "Sequence[Question]") -> dict[str, Any]:
    from corpora.questions import split_hash

    return {"n": len(questions), "sha256": split_hash(questions)}


@contextlib.contextmanager
def _work_note(out: Path, request: dict[str, Any], *, resume: bool, overwrite: bool) -> Iterator[Path]:
    """Keep a folder beside `out` for as long as the work lasts; it stays behind when the work is stopped."""
    work = out.parent / f".{out.name}.compiling"
    path = work / "request.json"
    if out.exists() and not overwrite:
        raise UserError(f"{out} exists already. Choose another folder, or replace the artifact with --overwrite.")
    if path.exists() and not resume and not overwrite:
        raise UserError(f"A compilation into {out} was stopped: go on with --resume, or start anew with --overwrite.")
    if path.exists() and resume:
        before = json.loads(path.read_text(encoding="utf-8"))
        if changed := [name for name in request if before.get(name) != json.loads(json.dumps(request[name]))]:
            raise UserError(
                f"The stopped compilation into {out} had another {changed[0]}: give the same command as then, "
                "or start anew with --overwrite."
            )
    elif work.exists():
        shutil.rmtree(work)
    write_json(path, request)
    yield work
    shutil.rmtree(work)


def _optimize(
    student: "dspy.Module", task: "Task", optimizer: str, *, connection: "Connection", progress: bool
) -> "tuple[Compiled, dict[str, float]]":
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
    from programs.parts.meter import metered

    console = Console(stderr=True, quiet=not progress)
    if optimizer != "labeled":
        console.print(str(estimate(len(task.trainset), student.max_calls(), threads=task.threads)), highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as bar:
        line = bar.add_task(f"Compile ({optimizer})", total=len(task.trainset))

        def report(tried: int, accepted: int) -> None:
            bar.update(line, completed=tried, description=f"Compile ({optimizer}), {accepted} accepted")

        with connection.use(), metered() as meter:
            compiled = compile(student, replace(task, progress=report), optimizer=optimizer)
    return compiled, meter.counts()


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
    from experiments.evaluate import evaluate

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
) -> "Artifact":
    from programs.artifact import freeze, lm_record

    retrieve = getattr(compiled.program, "retrieve", None)
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
            "cost": cost,
        },
        metric=metric,
        revision=git_revision(),
    )
