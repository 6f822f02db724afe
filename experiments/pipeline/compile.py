"""Compile a program and freeze it into an artifact: optimize, score on validation questions, freeze.

A compilation can be resumed after a kill because LM replies are cached on disk: the optimizers here are deterministic,
so the same call sends the same prompts in the same order, and those answered before cost nothing. A checkpoint next to
the artifact records the request, so that only the same request can resume it, and every candidate as soon as it is
scored.

If the budget is spent, the best candidate that was scored completely is frozen, else the uncompiled program; the
artifact says so, the checkpoint stays, and the compilation can be resumed with a larger budget. A budget is one of the
whole compilation, all its sessions together, except for seconds, which are those of a session.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.pipeline.compiling.candidates import CandidateLog, scores_of
from experiments.pipeline.compiling.checkpoint import Checkpoint, compile_checkpoint, request_hash
from experiments.pipeline.compiling.config import CompileConfig
from experiments.pipeline.compiling.estimate import CompileEstimate, compile_estimate
from experiments.pipeline.compiling.frozen import freeze_compiled, relative_path
from experiments.pipeline.compiling.progress import CompileProgress
from experiments.pipeline.compiling.questions import divided
from experiments.pipeline.compiling.request import describe, request_of, task_of
from experiments.runs.config import RunConfig
from experiments.runs.files import read_rows
from programs.lms.calls.control import controlled
from programs.warm_up import warm_up
from signatures.common.errors import UserError

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from optimizers.teleprompters.compile import Compiled
    from optimizers.teleprompters.task import Task
    from programs.artifact import Artifact
    from programs.lms.connect import Connection

SAVE_SECONDS = 5.0  # between two writings of the cost so far


def compile_program(
    student: "dspy.Module",
    trainset: "Sequence[Question]",
    valset: "Sequence[Question]",
    config: CompileConfig,
    *,
    connection: "Connection",
    out: Path | str,
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
        connection: The LM of teacher and student. Its budget counts what earlier sessions have spent.
        out: Folder of the artifact.
        resume: Continue a stopped compilation into `out`; a finished one is returned as it is.
        overwrite: Replace an existing artifact. If the budget is spent before any candidate was scored completely, it
            stays.
        progress: Show estimate, progress and candidates on stderr.

    Returns:
        The artifact; `optimizer["stopped"]` is why the work ended early, None if it did not.

    Raises:
        UserError: `out` exists, another compilation into it was stopped or is running, there are no examples to learn
            from, one of the questions is of a test split, or the optimizer does not fit.
        BudgetExceeded: The budget is spent, and an artifact that was to be replaced stays.
    """
    from programs.artifact import check_freezable, read_artifact

    out = Path(out)
    check_freezable(student)
    questions = divided(trainset, valset, optimizer=config.optimizer, seed=config.seed)
    task = task_of(student, questions, config, connection)
    estimate = _estimated(student, task, config, connection)
    data = {"train": describe(questions.train), "val": describe(questions.val)}
    request = request_of(student, config, task, data, connection)
    links = {"lm": connection, "teacher": config.teacher, "prompt": config.prompt}
    lms = {name: link.lm for name, link in links.items() if link is not None}
    with compile_checkpoint(out, request, resume=resume, overwrite=overwrite, lms=lms) as checkpoint:
        if checkpoint is None:
            return read_artifact(out)
        warm_up(student, connection)
        compiled = _optimize(
            student, task, config, connection, checkpoint, CompileProgress(estimate, config.metric.name, shown=progress)
        )
        if compiled.stopped and compiled.chosen is None and checkpoint.replaces:
            from programs.lms.calls.budget import BudgetExceeded

            raise BudgetExceeded(f"{compiled.stopped} {out} is not replaced: no candidate was scored completely.")
        scores, stopped = _scores(compiled, questions.val, config, connection, checkpoint, progress=progress)
        cost = checkpoint.cost()
        checkpoint.kept = stopped is not None
        return freeze_compiled(
            compiled,
            out,
            overwrite=overwrite or checkpoint.continues,
            connection=connection,
            data={**data, "index": relative_path(config.index, out), **config.provenance},
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
    return _estimated(student, task_of(student, questions, config, connection), config, connection)


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
        checkpoint.save()
        progress.scored(candidate)

    def ran() -> None:
        checkpoint.save(every=SAVE_SECONDS)
        progress.ran()

    task = replace(
        task,
        progress=progress.tried,
        on_candidate=scored,
        on_run=ran,
        known=log.read(),
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
    if compiled.stopped or chosen is not None or not valset:
        return scores_of(chosen, _undefined(valset, config)), compiled.stopped
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
        return {}, summary.stopped
    scores = {row["id"]: row["scores"][config.metric.name] for row in read_rows(folder)}
    return {**summary.metrics[config.metric.name].as_dict(), "errors": summary.errors, "scores": scores}, None


def _undefined(valset: "Sequence[Question]", config: CompileConfig) -> set[str]:
    """Return the ids of questions that lack the gold of the metric, which score 0 for every candidate alike."""
    from optimizers.evaluating import unanswered
    from optimizers.examples import to_examples

    return {each.id for each in to_examples(valset) if config.metric(each, unanswered()) is None}
