"""What a study leaves in its folder: `study.json`, plots, and the chosen setting as an artifact."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.analysis.statistics import mean_of
from experiments.analysis.tuning.findings import Findings, findings, importances
from experiments.analysis.tuning.plots import draw_all
from experiments.pipeline.compiling.frozen import relative_path
from experiments.pipeline.tuning.config import TuneConfig
from experiments.runs.config import corpus_of
from experiments.runs.files import git_revision, write_json
from optimizers.examples import asked_words
from optimizers.tuning.objective import LiveEvaluator
from optimizers.tuning.prompts import is_prompt
from optimizers.tuning.records import Trial, read_trial
from optimizers.tuning.space import Space
from signatures.common.errors import UserError

if TYPE_CHECKING:
    import optuna

    from corpora.questions import Question
    from programs.lms.connect import Connection

RESULT, ARTIFACT = "study.json", "artifact"


@dataclass(frozen=True)
class Found:
    """A study's results.

    Args:
        findings: What the trials say.
        chosen: The trial that was frozen; None if none could be.
        artifact: Folder of the artifact; None without one.
        present: The setting of the program as it was.
        record: What `study.json` contains.
        plots: Files of the plots.
        stopped: Why the study ended early; None if it has all its trials.
        unbought: Why questions stayed unseen that were to be bought; None if none did.
    """

    findings: Findings
    chosen: Trial | None
    artifact: Path | None
    present: dict[str, Any]
    record: dict[str, Any]
    plots: list[Path]
    stopped: str | None = None
    unbought: str | None = None


def write_results(
    study: "optuna.Study",
    space: Space,
    live: LiveEvaluator,
    questions: "Sequence[Question]",
    config: TuneConfig,
    *,
    request: dict[str, Any],
    spent: dict[str, float],
    stopped: str | None,
    connection: "Connection",
    out: Path,
) -> Found:
    """Write `study.json`, plots and the artifact into `out`, and return what they say.

    Raises:
        UserError: The trial that was named is not complete, or a file cannot be written.
    """
    import filelock

    with filelock.FileLock(out / ".results.lock"):  # other processes of the study write into the same folder
        trials = [read_trial(trial) for trial in study.get_trials(deepcopy=False)]
        found = findings(trials, config.goal, folds=config.folds, questions=[*map(asked_words, questions)])
        chosen = _chosen(found, config.chosen)
        weights = importances(study, seed=config.seed)
        record = {
            "study": study.study_name,
            "request": request,
            "present": space.present,
            "questions": [question.id for question in questions],
            "spent": spent,
            "stopped": stopped,
            "counts": dict(Counter(trial.state for trial in trials)),
            **found.as_dict(),
            "frozen": chosen.number if chosen else None,
            "importance": weights,
            "trials": [trial.as_dict() for trial in trials],
        }
        write_json(out / RESULT, record)
        plots = draw_all(found, space.present, weights, out, metric=config.metric.name)
        artifact = None
        if chosen is not None:
            artifact = out / ARTIFACT
            _freeze(artifact, chosen, live, questions, config, record, connection)
        return Found(found, chosen, artifact, space.present, record, plots, stopped)


def _chosen(found: Findings, number: int | None) -> Trial | None:
    if number is None:
        return found.recommended
    for trial in found.trials:
        if trial.number == number and trial.complete:
            return trial
    complete = [str(trial.number) for trial in found.trials if trial.complete]
    raise UserError(f"Trial {number} is not complete: choose one of {', '.join(complete) or 'none'}.")


def check_choice(number: int | None, known: "Sequence[optuna.trial.FrozenTrial]", trials: int) -> None:
    """Raise UserError if the trial that is to be frozen can never be complete, before any more is paid for.

    Args:
        number: Of the trial; None is always allowed.
        trials: How many the study is to finish.
    """
    if number is None:
        return
    finished = sum(trial.state.name in ("COMPLETE", "PRUNED") for trial in known)
    if number >= len(known) + max(0, trials - finished):
        raise UserError(f"The study of {trials} trials has no trial {number}: choose a lower number, or ask for more.")
    if number < len(known) and known[number].state.name in ("PRUNED", "FAIL"):
        complete = [str(trial.number) for trial in known if trial.state.name == "COMPLETE"]
        raise UserError(f"Trial {number} is not complete: choose one of {', '.join(complete) or 'none'}.")


def _freeze(
    folder: Path,
    trial: Trial,
    live: LiveEvaluator,
    questions: "Sequence[Question]",
    config: TuneConfig,
    record: dict[str, Any],
    connection: "Connection",
) -> None:
    from programs.artifact import freeze, lm_record

    knobs = {name: value for name, value in trial.setting.items() if not is_prompt(name)}
    prompts = {name: value for name, value in trial.setting.items() if is_prompt(name)}
    program = live.build(knobs, prompts)
    budget = getattr(connection.lm, "budget", None)
    kept = ("study", "counts", "best", "baseline", "front", "held_out_score", "held_out_gain", "verdict", "importance")
    request = record["request"]
    freeze(
        program,
        folder,
        overwrite=True,
        lm=lm_record(connection),
        corpus=corpus_of(program),
        data={
            "tuned": request["questions"],
            "train": request["trainset"],
            "index": relative_path(config.index, folder),
            **config.provenance,
        },
        optimizer={
            "name": "tune",
            "arguments": {name: request[name] for name in ("knobs", "candidates", "sampler", "prune", "seed")},
            "accepted": {name: len(predictor.demos) for name, predictor in program.named_predictors()},
            "budget": budget.limits if budget and budget.limited else None,
            "cost": record["spent"],
            "trial": trial.number,
            "setting": trial.setting,
            **{name: record[name] for name in kept},
        },
        metric={
            **config.metric.described,
            **mean_of(trial.scores).as_dict(),
            "errors": trial.errors,
            "scores": {question.id: score for question, score in zip(questions, trial.scores, strict=True)},
        },
        revision=git_revision(),
    )
