"""Compile a program and freeze it into an artifact: optimize, score on validation questions, freeze.

A compilation can be resumed after a kill because LM replies are cached on disk: the optimizers here are deterministic,
so the same call sends the same prompts in the same order, and those answered before cost nothing. A checkpoint next to
the artifact records the request, so that only the same request can resume it, and every candidate as soon as it is
scored.

If the budget is spent, the best candidate that was scored completely is frozen, else the uncompiled program; the
artifact says so, the checkpoint stays, and the compilation can be resumed with a larger budget.
"""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.pipeline.compiling.candidates import CandidateLog, candidate_rows, scores_of
from experiments.pipeline.compiling.checkpoint import Checkpoint, compile_checkpoint, request_hash
from experiments.pipeline.compiling.config import CompileConfig
from experiments.pipeline.compiling.estimate import CompileEstimate, compile_estimate
from experiments.pipeline.compiling.progress import CompileProgress
from experiments.pipeline.compiling.questions import Divided, divided
from experiments.pipeline.warm_up import warm_up
from experiments.runs.config import RunConfig, describe_lm, describe_program
from experiments.runs.files import git_revision, read_rows
from programs.lms.calls.control import controlled
from signatures.common.errors import UserError

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from optimizers.teleprompters.compile import Compiled
    from optimizers.teleprompters.task import Task
    from programs.artifact import Artifact
    from programs.lms.connect import Connection


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
    """Compile `student`, score it on validation questions, and freeze it to `out`.

    Args:
        student: The program; it is not changed.
        trainset: Questions to optimize on.
        valset: Questions that candidates are compared on, and that the compiled program is scored on. Those that are
            training questions, too, are left out. Without any, a part of the training questions is held out if the
            optimizer compares candidates; else nothing is scored.
        config: Optimizer, metric and their settings.
        connection: The LM of teacher and student.
        out: Folder of the artifact.
        resume: Continue a stopped compilation into `out`; a finished one is returned as it is.
        overwrite: Replace an existing artifact. If the budget is spent before any candidate was scored completely, it
            stays.
        progress: Show estimate, progress and candidates on stderr.

    Returns:
        The artifact; `optimizer["stopped"]` is why the work ended early, None if it did not.

    Raises:
        UserError: `out` exists, another compilation into it was stopped or is running, there are no examples to learn
            from, one of the questions is of the split test, or the optimizer does not fit.
        BudgetExceeded: The budget is spent, and an artifact that was to be replaced stays.
    """
    from programs.artifact import check_freezable, read_artifact

    check_freezable(student)
    questions = divided(trainset, valset, optimizer=config.optimizer, seed=config.seed)
    task = _task(student, questions, config, connection)
    estimate = _estimated(student, task, config, connection)
    data = {"train": _describe(questions.train), "val": _describe(questions.val)}
    request = _request(student, config, task, data, connection)
    with compile_checkpoint(out, request, resume=resume, overwrite=overwrite) as checkpoint:
        if checkpoint is None:
            return read_artifact(out)
        warm_up(student, connection)
        started = time.monotonic()
        compiled = _optimize(
            student, task, config, connection, checkpoint, CompileProgress(estimate, config.metric.name, shown=progress)
        )
        if compiled.stopped and compiled.chosen is None and checkpoint.replaces:
            from programs.lms.calls.budget import BudgetExceeded

            raise BudgetExceeded(f"{compiled.stopped} {out} is not replaced: no candidate was scored completely.")
        scores, stopped = _scores(compiled, questions.val, config, connection, checkpoint, progress=progress)
        cost = checkpoint.cost(round(time.monotonic() - started, 1))
        checkpoint.kept = stopped is not None
        return _freeze(
            compiled,
            out,
            overwrite=overwrite or checkpoint.continues,
            connection=connection,
            data={**data, "index": _relative_path(config.index, out), **config.provenance},
            optimizer={
                "estimate": estimate.as_dict(),
                "stopped": stopped,
                "cost": cost,
                "request_sha256": request_hash(request),
            },
            metric={"name": config.metric.name, "definition": config.metric.definition, **scores},
        )


def estimated(
    student: "dspy.Module",
    trainset: "Sequence[Question]",
    valset: "Sequence[Question]",
    config: CompileConfig,
    *,
    connection: "Connection",
) -> CompileEstimate:
    """Return what `compile_program` takes at most, without an LM call.

    Raises:
        UserError: See `compile_program`.
    """
    questions = divided(trainset, valset, optimizer=config.optimizer, seed=config.seed)
    return _estimated(student, _task(student, questions, config, connection), config, connection)


def _estimated(
    student: "dspy.Module", task: "Task", config: CompileConfig, connection: "Connection"
) -> CompileEstimate:
    """Return the estimate; raise UserError if a teacher or prompt LM is named that would not be called."""
    estimate = compile_estimate(student, task, config, connection)
    if config.teacher is not None and not estimate.runs.teacher:
        raise UserError(f"Optimizer {config.optimizer} has no teacher: name no teacher LM, or another optimizer.")
    if config.prompt is not None and not estimate.runs.prompt_calls:
        raise UserError(
            f"Optimizer {config.optimizer} writes no instructions: name no prompt LM, or another optimizer."
        )
    return estimate


def _request(
    student: "dspy.Module", config: CompileConfig, task: "Task", data: dict[str, Any], connection: "Connection"
) -> dict[str, Any]:
    """Return everything that decides the result of a compilation."""
    settings = {"accept": config.accept, "max_demos": config.max_demos, "seed": config.seed}
    others = {"teacher": config.teacher, "prompt": config.prompt}
    request = {
        "program": describe_program(student),
        "lm": describe_lm(connection),
        "corpus": getattr(getattr(student, "retrieve", None), "fingerprint", None),
        "optimizer": {
            "name": config.optimizer,
            **settings,
            **({"options": dict(task.options)} if task.options else {}),
            **{name: describe_lm(link) for name, link in others.items() if link is not None},
        },
        "metric": {"name": config.metric.name, "definition": config.metric.definition},
        "data": data,
    }
    return json.loads(json.dumps(request, default=str))  # as read back from the file, so that they can be compared


def _describe(questions: "Sequence[Question]") -> dict[str, Any]:
    from corpora.questions import split_hash

    return {"n": len(questions), "sha256": split_hash(questions)}


def _task(student: "dspy.Module", questions: Divided, config: CompileConfig, connection: "Connection") -> "Task":
    from optimizers.examples import to_examples
    from optimizers.teleprompters.compile import checked_task
    from optimizers.teleprompters.task import Task

    task = Task(
        trainset=to_examples(questions.train),
        valset=to_examples(questions.val),
        score=config.metric,
        accept=config.accept,
        max_demos=config.max_demos,
        seed=config.seed,
        threads=config.threads,
        options=config.options,
    )
    if config.teacher is not None:
        task = replace(task, teacher_lm=config.teacher.lm, teacher_adapter=config.teacher.adapter)
    if config.prompt is not None:
        task = replace(task, prompt_lm=config.prompt.lm, prompt_adapter=config.prompt.adapter)
    with connection.use():  # some optimizers fit only some LMs
        return checked_task(student, task, config.optimizer)


def _relative_path(index: Path | None, out: Path) -> str | None:
    """Return the path of the index relative to the artifact, so that both can be moved together."""
    if index is None:
        return None
    try:
        return os.path.relpath(index.resolve(), out.resolve())
    except ValueError:  # on another drive
        return str(index.resolve())


def _optimize(
    student: "dspy.Module",
    task: "Task",
    config: CompileConfig,
    connection: "Connection",
    checkpoint: Checkpoint,
    progress: CompileProgress,
) -> "Compiled":
    from optimizers.teleprompters.compile import compile

    log = CandidateLog(checkpoint.folder, student)

    def scored(candidate: Any) -> None:
        log.add(candidate)
        progress.scored(candidate)

    task = replace(
        task,
        progress=progress.tried,
        on_candidate=scored,
        on_run=progress.ran,
        known=log.read(),
        folder=checkpoint.folder / "optimizer",
    )
    with progress.running(), connection.use(), controlled(progress.say):
        return compile(student, task, optimizer=config.optimizer)


def _scores(
    compiled: "Compiled",
    valset: "Sequence[Question]",
    config: CompileConfig,
    connection: "Connection",
    checkpoint: Checkpoint,
    *,
    progress: bool,
) -> tuple[dict[str, Any], str | None]:
    """Return the metric's mean, interval and scores on the validation questions, {} if there are none; and what ended
    the work early, None if nothing did.
    """
    chosen = next((each for each in reversed(compiled.candidates) if each.label == compiled.chosen), None)
    if compiled.stopped or not valset:
        return scores_of(chosen), compiled.stopped
    from experiments.pipeline.evaluate import evaluate

    folder = checkpoint.folder / "val"
    summary = evaluate(
        compiled.program,
        valset,
        RunConfig(metrics=[config.metric], threads=config.threads),
        connection=connection,
        folder=folder,
        resume=folder.exists(),
        progress=progress,
    )
    if summary.stopped:
        return scores_of(chosen), summary.stopped
    scores = {row["id"]: row["scores"][config.metric.name] for row in read_rows(folder)}
    return {**summary.metrics[config.metric.name].as_dict(), "errors": summary.errors, "scores": scores}, None


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
            "candidates": candidate_rows(compiled.candidates),
            "chosen": compiled.chosen,
            "details": compiled.details,
            "budget": budget.limits if budget and budget.limited else None,
            **optimizer,
        },
        metric=metric,
        revision=git_revision(),
    )
