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
from typing import TYPE_CHECKING, Any, Self

from experiments.analysis.summary import percent
from experiments.pipeline.compiling.checkpoint import (
    CandidateLog,
    Checkpoint,
    compile_checkpoint,
    scores_of,
)
from experiments.pipeline.compiling.config import CompileConfig
from experiments.pipeline.compiling.estimate import CompileEstimate, compile_estimate
from experiments.pipeline.compiling.frozen import freeze_compiled, relative_path
from experiments.pipeline.compiling.request import compile_request, describe, divided, task_of
from experiments.pipeline.corpus_notes import gold_note, simulated_note
from experiments.runs.config import RunConfig
from experiments.runs.files import read_rows
from programs.inference import warm_up
from programs.lms.calls.budget import BudgetExceeded
from programs.lms.calls.control import controlled
from signatures.common.errors import UserError
from signatures.common.progress import ProgressLine

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from optimizers.teleprompters.compile import Compiled
    from optimizers.teleprompters.task import ScoredProgram, Task
    from programs.artifact import Artifact
    from programs.lms.connect import Connection


class CompileProgress(ProgressLine):
    """Shows runs, demonstrations and candidates.

    Args:
        estimate: Shown first; its runs are the length of the bar.
        metric: Name of the metric.
        shown: False prints nothing.
    """

    def __init__(self, estimate: "CompileEstimate", metric: str, *, shown: bool):
        total = estimate.runs.student + estimate.runs.teacher
        columns = ("what", "short bar", "count", "left")
        super().__init__(f"Compile ({estimate.optimizer})", *columns, total=total, shown=shown)
        self.update(visible=total > 0)
        self._estimate, self._metric = estimate, metric
        self._accepted = self._count = 0
        self._best_mean: float | None = None

    def __enter__(self) -> Self:
        self.say(str(self._estimate))
        return super().__enter__()

    def ran(self) -> None:
        """Count a run of a program on a question."""
        self.update(advance=1)

    def tried(self, tried: int, accepted: int) -> None:
        """Show how many training questions make demonstrations."""
        self._accepted = accepted
        self._describe()

    def scored(self, candidate: "ScoredProgram") -> None:
        """Show a candidate that was scored."""
        self._count += 1
        if candidate.complete and (self._best_mean is None or candidate.mean > self._best_mean):
            self._best_mean = candidate.mean
        part = "" if candidate.complete else " (not the whole validation set)"
        self.say(
            f"{candidate.label}: {self._metric} {percent(candidate.mean)} on {len(candidate.scores)} questions{part}, "
            f"{candidate.n_calls:,} LM calls so far"
        )
        self._describe()

    def _describe(self) -> None:
        figures = [f"{self._accepted} accepted"] if self._accepted else []
        if self._best_mean is not None:
            figures = [f"{self._count} candidates", f"best {percent(self._best_mean)}"]
        self.update(", ".join([f"Compile ({self._estimate.optimizer})", *figures]))


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
    request = compile_request(student, config, task, questions, connection)
    with compile_checkpoint(out, request, resume=resume, overwrite=overwrite, lms=config.lms(connection)) as checkpoint:
        if checkpoint is None:
            return read_artifact(out)
        warm_up(student, connection)
        compiled = optimize(
            student, task, config, connection, checkpoint, CompileProgress(estimate, config.metric.name, shown=progress)
        )
        scores, stopped = _scores(compiled, questions.val, config, connection, checkpoint, progress=progress)
        return freeze_compiled(
            compiled,
            checkpoint,
            request=request,
            estimate=estimate,
            stopped=stopped,
            overwrite=overwrite,
            connection=connection,
            data={**data, "index": relative_path(config.index, out), **config.provenance},
            metric={**config.metric.described, **scores},
        )


def estimated(
    student: "dspy.Module",
    trainset: "Sequence[Question]",
    valset: "Sequence[Question]",
    config: CompileConfig,
    *,
    connection: "Connection",
) -> CompileEstimate:
    """Return what `compile_program` takes at most, without an LM call."""
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


def optimize(
    student: "dspy.Module",
    task: "Task",
    config: CompileConfig,
    connection: "Connection",
    checkpoint: Checkpoint,
    progress: CompileProgress,
) -> "Compiled":
    """Return the compiled program; its candidates and costs are kept in the checkpoint while it is compiled.

    Raises:
        BudgetExceeded: The budget is spent, and an artifact that was to be replaced stays.
    """
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
    with progress, connection.use(), controlled(progress.say):
        compiled = compile(student, task, optimizer=config.optimizer)
    if compiled.stopped and compiled.chosen is None and checkpoint.replaces:
        raise BudgetExceeded(
            f"{compiled.stopped} {checkpoint.out} is not replaced: no candidate was scored completely."
        )
    return compiled


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


ACCEPT_MORE = "Try the metric f1[hotpot] with accept=0.5, more questions, the optimizer labeled or another LM."
NONE_WANTED = "max_demos is 0."
GO_ON = "Resume with the same arguments, resume=True and a larger budget."


def notes_on_questions(
    student: "dspy.Module",
    trainset: "Sequence[Question]",
    valset: "Sequence[Question]",
    config: CompileConfig,
    lm_id: str,
) -> list[str]:
    """Return notes on gold passages that the index lacks, on questions that are held out, left out, or unknown to the
    LM.
    """
    from programs.artifact import retrieves

    retrieve = getattr(student, "retrieve", None) if retrieves(student) else None
    found = {"Training": gold_note(trainset, retrieve), "Validation": gold_note(valset, retrieve)}
    notes = [f"{what} questions: {text}" for what, text in found.items() if text]
    notes += divided(trainset, valset, optimizer=config.optimizer, seed=config.seed).notes
    return notes + [text for text in (simulated_note(lm_id, trainset),) if text]


def note_without_demonstrations(
    artifact: "Artifact",
    trainset: "Sequence[Question]",
    *,
    cure: str = ACCEPT_MORE,
    none_wanted: str = NONE_WANTED,
) -> str | None:
    """Return a note if the compiled program has no demonstrations; None if it has.

    Args:
        cure: What to try, in words of the caller.
        none_wanted: The reason if none were asked for.
    """
    optimizer = artifact.optimizer
    if any(optimizer["accepted"].values()) or optimizer["stopped"] or optimizer["candidates"]:
        return None
    accept, failed = optimizer["arguments"]["accept"], optimizer["failed"]
    errors = f" ({failed} ended in an error)" if failed else ""
    cause = (
        f"no answer to the {optimizer['tried']} training questions{errors} reached {artifact.metric['name']} >= "
        f"{accept:g}. The LM may be too weak for them, the index may be of another corpus, or the metric too strict. "
        f"{cure}"
    )
    if unanswered := sum(not question.answers for question in trainset):
        cause = f"{unanswered} of {len(trainset)} training questions have no gold answer; {cause}"
    if not optimizer["arguments"]["max_demos"]:
        cause = none_wanted
    return (
        "The compiled program has no demonstrations: it is the uncompiled program with its knobs stored, and answers "
        f"the same. Reason: {cause}"
    )


def stopped_text(optimizer: dict[str, Any], *, cure: str = GO_ON) -> str | None:
    """Return what a compilation hands back whose budget was spent; None if it was not.

    Args:
        cure: How to go on, in words of the caller.
    """
    if not optimizer["stopped"]:
        return None
    complete = sum(each["complete"] for each in optimizer["candidates"])
    race = optimizer["details"].get("race")
    frozen = (
        "No optimizer has won the race yet: the uncompiled program is frozen"
        if race and race["winner"] == "uncompiled"
        else f"The best of {complete} candidates scored so far is frozen: {optimizer['chosen']}"
        if optimizer["chosen"]
        else "No candidate was scored completely: the uncompiled program is frozen"
        if not any(optimizer["accepted"].values())
        else "The compiled program is frozen without its scores"
    )
    return f"{optimizer['stopped']} {frozen}. {cure}"
