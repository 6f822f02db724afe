"""`verihop compile`: optimize a program on training questions and freeze it."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, note, note_defaults, resumable, say
from experiments.cli.shared.next_commands import QUESTION, command, new_path, other_split, used
from experiments.cli.shared.option_groups import with_option_groups
from signatures.common.errors import UserError

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from programs.artifact import Artifact


@dataclass(frozen=True)
class Optimization:
    """How the program is optimized."""

    PANEL: ClassVar[str] = "Optimizer"
    optimizer: Annotated[
        str, typer.Option(help="bootstrap (traces of questions answered well) or labeled (gold decompositions).")
    ] = "bootstrap"
    metric: Annotated[str, typer.Option(help="The metric to optimize.")] = "em"
    accept: Annotated[
        float, typer.Option(min=0.001, max=1, help="Minimum score of a training question to become a demonstration.")
    ] = 1.0
    max_demos: Annotated[int, typer.Option(min=0, max=64, help="Maximum number of demonstrations per predictor.")] = 4


@dataclass(frozen=True)
class Validation:
    """Questions the compiled program is scored on."""

    PANEL: ClassVar[str] = "Validation"
    val: Annotated[
        Path | None, typer.Option(help="Questions to score the compiled program on.", show_default=False)
    ] = None
    val_split: Annotated[str | None, typer.Option(help="Use only this split of --val.", show_default=False)] = None
    val_limit: Annotated[
        int | None, typer.Option(min=1, help="Use only the first N questions of --val.", show_default=False)
    ] = None

    def questions(self) -> "list[Question]":
        """Return the validation questions; empty without --val."""
        from experiments.pipeline.setup import open_questions

        if self.val is None:
            if self.val_split is not None or self.val_limit is not None:
                raise UserError("--val-split and --val-limit select questions of --val: name that file, too.")
            return []
        return open_questions(self.val, split=self.val_split, limit=self.val_limit)

    def words(self) -> list[str]:
        """Return the words that select these questions in `eval`; empty without --val."""
        selected = {"--split": self.val_split, "--limit": self.val_limit}
        chosen = [word for flag, value in selected.items() if value is not None for word in (flag, str(value))]
        return [str(self.val), *chosen] if self.val else []


@dataclass(frozen=True, kw_only=True)
class Result(options.Replacing):
    """Where the artifact is written, and what is printed."""

    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the artifact.")]


@with_option_groups
def compile_(
    questions: Annotated[Path, typer.Argument(help="questions.jsonl to optimize on.")],
    program: options.UncompiledProgram,
    lm: options.LM,
    optimization: Optimization,
    selection: options.Selection,
    validation: Validation,
    execution: options.SeededExecution,
    limits: options.Limits,
    result: Result,
) -> None:
    """Optimize a program on training questions and freeze it into an artifact."""
    from experiments.pipeline import setup
    from experiments.pipeline.compile import compile_program
    from experiments.pipeline.compiling.config import CompileConfig
    from experiments.pipeline.defaults import with_defaults
    from optimizers.metrics.typed.opened import typed_metric

    program_config, lm_config, chosen = with_defaults(program.config(), lm.config(execution.threads))
    note_defaults(chosen)
    reranked = {} if program_config.rerank is None else {"rerank": program_config.rerank}
    config = CompileConfig(
        metric=typed_metric(optimization.metric),
        optimizer=optimization.optimizer,
        accept=optimization.accept,
        max_demos=optimization.max_demos,
        seed=execution.seed,
        threads=execution.threads,
        index=program.index,
        provenance={"train_path": str(questions), "val_path": str(validation.val or ""), **reranked},
    )
    trainset = setup.open_questions(questions, split=selection.split, limit=selection.limit)
    valset = validation.questions()
    retrieve = setup.open_retriever(program_config)
    connection = setup.open_lm(lm_config, limits.budget())
    student = setup.open_program(program_config, retrieve, connection)
    notes = _notes_on_questions(student, trainset, valset, connection.id)
    with resumable():
        artifact = compile_program(
            student,
            trainset,
            valset,
            config,
            connection=connection,
            out=result.out,
            resume=execution.resume,
            overwrite=result.overwrite,
            progress=not result.quiet,
        )
    notes += _note_without_demonstrations(artifact, trainset)
    if result.as_json:
        emit({"artifact": str(result.out), **artifact.model_dump(mode="json"), "notes": notes})
        return
    _print(artifact, program.program, result.out)
    words = [*used(lm), *used(program, "retriever", "rerank"), *used(limits)]
    following = [command("verihop", "ask", "--artifact", result.out, *words, QUESTION)]
    if held_out := validation.words() or other_split(questions, selection.split):
        run = new_path(result.out.with_name(f"{result.out.name}-eval"))
        following.append(command("verihop", "eval", *held_out, "--artifact", result.out, *words, "--out", run))
    next_step(*following)


def _notes_on_questions(
    student: "dspy.Module", trainset: "list[Question]", valset: "list[Question]", lm_id: str
) -> list[str]:
    """Print and return notes on gold passages that the index lacks, on questions in both sets or unknown to the LM."""
    from experiments.pipeline.corpus_notes import gold_note, overlap_note, retrieves, simulated_note

    retrieve = getattr(student, "retrieve", None) if retrieves(student) else None
    found = {"Training": gold_note(trainset, retrieve), "Validation": gold_note(valset, retrieve)}
    notes = [f"{what} questions: {text}" for what, text in found.items() if text]
    notes += [text for text in (overlap_note(trainset, valset), simulated_note(lm_id, trainset)) if text]
    for text in notes:
        note(f"Note: {text}")
    return notes


def _note_without_demonstrations(artifact: "Artifact", trainset: "list[Question]") -> list[str]:
    """Print and return a note if the compiled program has no demonstrations."""
    optimizer = artifact.optimizer
    if any(optimizer["accepted"].values()):
        return []
    accept, failed = optimizer["arguments"]["accept"], optimizer["failed"]
    errors = f" ({failed} ended in an error)" if failed else ""
    cause = (
        f"no answer to the {optimizer['tried']} training questions{errors} reached {artifact.metric['name']} >= "
        f"{accept:g}. The LM may be too weak for them, the index may be of another corpus, or the metric too strict. "
        "Try --metric 'f1[hotpot]' --accept 0.5, more questions, --optimizer labeled or another --lm."
    )
    if unanswered := sum(not question.answers for question in trainset):
        cause = f"{unanswered} of {len(trainset)} training questions have no gold answer; {cause}"
    if not optimizer["arguments"]["max_demos"]:
        cause = "--max-demos is 0."
    text = (
        "The compiled program has no demonstrations: it is the uncompiled program with its knobs stored, and answers "
        f"the same. Reason: {cause}"
    )
    note(f"Note: {text}")
    return [text]


def _print(artifact: "Artifact", program: str, out: Path) -> None:
    from experiments.pipeline.corpus_notes import no_gain_note

    optimizer, metric = artifact.optimizer, artifact.metric
    demos = ", ".join(f"{count} for {name.removesuffix('.predict')}" for name, count in optimizer["accepted"].items())
    say(f"Compiled {program} with {optimizer['name']}: {optimizer['tried']} questions tried, demonstrations: {demos}.")
    say(f"Cost: {optimizer['cost']['calls']:.0f} LM calls, {optimizer['cost']['seconds']} s.")
    if text := no_gain_note(artifact.lm.id if artifact.lm else ""):
        say(text)
    if metric.get("mean") is not None:
        mean, low, high = (100 * metric[name] for name in ("mean", "low", "high"))
        interval = f"(95 % interval {low:.1f} to {high:.1f})"
        say(f"{metric['name']} on {metric['n']} validation questions: {mean:.1f} % {interval}")
    say(f"Frozen: {out}")
