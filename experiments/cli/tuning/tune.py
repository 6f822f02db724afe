"""`verihop tune`: search the best knobs, demonstrations and instructions of a program, and freeze them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, note, note_defaults, resumable, say, show
from experiments.cli.shared.next_commands import QUESTION, command, naming, new_path, other_split, used
from experiments.cli.shared.options import with_option_groups
from experiments.cli.tuning.groups import Execution, Objective, Prompts, Result, Search
from signatures.common.errors import UserError
from signatures.common.logs import are_json, event

if TYPE_CHECKING:
    from corpora.questions import Question
    from experiments.pipeline.tuning.config import TuneConfig
    from experiments.pipeline.tuning.results import Found
    from programs.lms.connect import Connection


@with_option_groups
def tune(
    questions: Annotated[Path, typer.Argument(help="questions.jsonl that every trial is scored on.")],
    program: options.AnyProgram,
    lm: options.LM,
    objective: Objective,
    search: Search,
    prompts: Prompts,
    selection: options.Selection,
    execution: Execution,
    limits: options.Limits,
    result: Result,
) -> None:
    """Search the best knobs, demonstrations and instructions, and freeze them.

    Trial 0 is the program as it is. The best setting is compared with it on questions that did not choose it. A stopped
    study goes on with --resume.
    """
    from dataclasses import replace

    from experiments.pipeline import setup
    from experiments.pipeline.corpus_notes import study_notes
    from experiments.pipeline.setup import with_defaults
    from experiments.pipeline.tuning.config import TuneConfig
    from experiments.pipeline.tuning.tune import tune_program
    from optimizers.metrics.typed.opened import typed_metric

    program_config, lm_config, chosen = with_defaults(program.config(), lm.config(execution.threads))
    note_defaults(chosen)
    fixed = options.parse_knobs(search.fix)
    program_config = replace(program_config, knobs={**program_config.knobs, **fixed})
    selected = setup.open_questions(questions, split=selection.split, limit=selection.limit)
    trainset = prompts.trainset()
    retrieve = setup.open_retriever(program_config)
    connection = setup.open_lm(lm_config, limits.budget())
    alone = search.replay is not None and not search.buy  # a record needs no index
    student = setup.open_program(program_config, retrieve, connection, contexts=alone)
    reranked = {} if program_config.rerank is None else {"rerank": program_config.rerank}
    config = TuneConfig(
        metric=typed_metric(objective.metric),
        goal=objective.goal(),
        candidates=prompts.candidates(_prompt_lm(prompts, lm_config, connection)),
        searched=search.searched(_searchable(student, replayed=alone)),
        narrowed=search.narrowed(),
        sampler=search.sampler,
        points=search.grid_points,
        trials=search.trials,
        prune=search.prune,
        prune_below=search.prune_below,
        folds=search.folds,
        seed=execution.seed,
        threads=execution.threads,
        storage=execution.storage,
        study=execution.study,
        replay=search.replay,
        buy=search.buy,
        chosen=result.pick,
        index=program_config.index,
        provenance={"tuned_path": str(questions), "train_path": str(prompts.train or ""), **reranked},
    )
    if result.estimate:
        _estimate(student, selected, trainset, config, result)
        return
    notes = study_notes(student, selected, trainset, connection.id)
    for text in notes:
        note(f"Note: {text}")
    with resumable():
        found = tune_program(
            student,
            selected,
            config,
            connection=connection,
            out=result.out,
            trainset=trainset,
            resume=execution.resume,
            overwrite=result.overwrite,
            progress=not (result.quiet or are_json()),
        )
    best = {} if found.chosen is None else {"trial": found.chosen.number, "score": found.chosen.score()}
    event("study_ended", best, stopped=found.stopped, folder=str(result.out))
    _print(found, config, result, notes)
    if not result.as_json and found.artifact is not None:
        words = [*naming(program.program), *used(lm), *used(program, "retriever", "rerank", "precision")]
        following = [command("verihop", "ask", "--artifact", found.artifact, *words, QUESTION)]
        if held_out := other_split(questions, selection.split):
            run = new_path(result.out.with_name(f"{result.out.name}-eval"))
            words = [*words, "--metrics", objective.metric]
            following.append(command("verihop", "eval", *held_out, "--artifact", found.artifact, *words, "--out", run))
        next_step(*following)
    if found.stopped:
        note(f"Stopped: {found.stopped} Resume with the same command, --resume and a larger budget.")
        raise typer.Exit(3)


def _searchable(student: Any, *, replayed: bool) -> list[str]:
    """Return the knobs of a program that have a range; of a replay those of them that only gates read."""
    from programs.parts.gates import replayable_knobs
    from programs.parts.knobs import knobs_of

    known = knobs_of(student)
    return [name for name in (replayable_knobs(student) if replayed else known) if known[name].space is not None]


def _prompt_lm(prompts: Prompts, task_lm: Any, connection: "Connection") -> "Connection | None":
    """Return the connection to the LM that writes instructions, which shares the budget; None if it is the task LM."""
    from experiments.pipeline import setup
    from experiments.runs.config import LMConfig

    if prompts.prompt_lm is None:
        if prompts.prompt_api_base or prompts.prompt_api_key_env:
            raise UserError("--prompt-api-base and --prompt-api-key-env need a model: add --prompt-lm.")
        return None
    config = LMConfig(prompts.prompt_lm, prompts.prompt_api_base, prompts.prompt_api_key_env, **task_lm.calling())
    return setup.open_lm(config, getattr(connection.lm, "budget", None))


def _estimate(
    student: Any, questions: "list[Question]", trainset: "list[Question]", config: "TuneConfig", result: Result
) -> None:
    """Print the most that the study can cost."""
    from dataclasses import asdict

    from experiments.pipeline.tuning.tune import estimate_study

    whole = estimate_study(student, questions, trainset, config)
    if result.as_json:
        emit(asdict(whole))
        return
    say(str(whole))


def _print(found: "Found", config: "TuneConfig", result: Result, notes: list[str]) -> None:
    """Print the best trials, what they gain, and what was written."""
    from experiments.analysis.tuning.findings import trials_table

    if result.as_json:
        written = {
            "artifact": str(found.artifact) if found.artifact else None,
            "plots": [str(path) for path in found.plots],
        }
        emit({**written, **found.record, "notes": [*notes, *([found.unbought] if found.unbought else [])]})
        return
    number = found.chosen.number if found.chosen else None
    show(trials_table(found.findings, found.present, metric=config.metric.name, chosen=number))
    counts = ", ".join(f"{count} {state}" for state, count in found.record["counts"].items())
    spent = found.record["spent"]
    say(f"Trials: {counts}. LM calls sent: {spent.get('calls', 0):,.0f}, tokens: {spent.get('tokens', 0):,.0f}.")
    if (held := found.findings.held_score) is not None and held.mean is not None:
        interval = "" if held.low is None or held.high is None else f" [{100 * held.low:.1f}, {100 * held.high:.1f}]"
        say(f"Held-out estimate of a setting chosen so: {100 * held.mean:.1f} %{interval}, {config.folds} folds.")
    say(found.findings.verdict)
    if unseen := [trial for trial in found.findings.trials if trial.unseen]:
        cure = (
            "with --buy, each time they are asked"
            if config.buy
            else "record more branches (eval --record-branches), or add --buy"
        )
        say(f"{len(unseen)} trials met branches that were never recorded and have no score: {cure}.")
    if found.unbought:
        say(found.unbought)
    for path in found.plots:
        say(f"Plot: {path}")
    if found.artifact is not None:
        say(f"Frozen: {found.artifact} (trial {number})")
