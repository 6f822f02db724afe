"""Fit a cascade of two artifacts on training questions, and write it with what was found."""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.pipeline.compiling.frozen import relative_path
from experiments.pipeline.compiling.request import describe
from experiments.pipeline.corpus_notes import seen_note
from experiments.pipeline.opened import AnswererSpec
from experiments.runs.config import corpus_of
from experiments.runs.files import git_revision
from experiments.runs.specs import CascadeSpec, ProgramSpec
from programs.artifacts.record import RETRIEVAL
from programs.inference import warm_up
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from corpora.questions import Question
    from optimizers.cascade.compile import AskedSamples
    from optimizers.cascade.fitting import CascadeSample, Fitted, ReplayedCascade
    from optimizers.evaluating import Outcome
    from optimizers.metrics.metric import Metric
    from programs.artifact import Artifact
    from programs.cascade import Cascade
    from programs.lms.calls.budget import Budget
    from programs.lms.connect import Connection
    from programs.lms.spec import LMSpec

FITTED = ("weights", "threshold")  # knobs
_NEVER, _ALWAYS = 1.0, 0.0  # thresholds


@dataclass(frozen=True, kw_only=True)
class CascadeConfig(CascadeSpec):
    """What a cascade is fitted for.

    Args:
        cheap: The artifact that answers every question.
        expensive: The artifact that is asked where that looks doubtful.
        metric: Higher is better.
        knobs: Of the cascade, those that are not fitted.

    Raises:
        UserError: The metric does not fit, or a knob is named that is fitted.
    """

    cheap: Path
    expensive: Path
    metric: "Metric"
    knobs: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.metric.judged or not self.metric.higher_is_better:
            reason = "is decided by a judge LM" if self.metric.judged else "is better when lower"
            raise UserError(f"{self.metric.name} {reason}: fit the cascade for another metric, e.g. em.")
        if named := [name for name in FITTED if name in self.knobs]:
            raise UserError(f"The knob {named[0]} is fitted on the questions: do not set it, too.")


def fit_artifacts(
    config: CascadeConfig,
    questions: "Sequence[Question]",
    lm: "LMSpec",
    budget: "Budget | None",
    out: Path,
    *,
    overwrite: bool = False,
    report: "Callable[[Outcome], None] | None" = None,
) -> "tuple[Artifact, list[str]]":
    """Ask two artifacts the training questions once, fit weights and threshold, and write the cascade.

    Args:
        config: The artifacts, and what is fitted for.
        questions: None may be of the split test.
        lm: Its id may be None: then it is the LM that both artifacts were compiled with.
        budget: On all LM calls.
        overwrite: Replace an existing artifact.
        report: Called with each outcome of either artifact, from several threads.

    Returns:
        The artifact, and notes: how many questions were left out and why, how many the demonstrations show, and whether
        the limit on tokens is below what the cheap program takes alone.

    Raises:
        UserError: `out` exists, the artifacts were compiled with different LMs and none is named, a question is of the
            split test, or too few of them have scores.
        BudgetExceeded: The budget is spent; nothing is written.
    """
    from optimizers.cascade.compile import ask_both, fitted_cascade
    from optimizers.examples import to_examples
    from programs.artifact import combine, lm_record

    if out.exists() and not overwrite:
        raise UserError(f"{out} exists already. Choose another folder, or set overwrite to replace an artifact.")
    started = time.monotonic()
    outcomes: list[Outcome] = []

    def count(outcome: "Outcome") -> None:
        outcomes.append(outcome)
        if report is not None:
            report(outcome)

    cascade, connection = _opened(config, lm, budget)
    with connection.use():
        asked = ask_both(cascade, to_examples(questions), config.metric, threads=config.threads, report=count)
    fitted, rule = fitted_cascade(cascade, asked, most_tokens=config.most_tokens)
    done = _on_training_questions(asked.samples, fitted)
    cost = {name: sum(outcome.costs[name] for outcome in outcomes) for name in outcomes[0].costs}
    record = combine(
        "cascade",
        [config.cheap, config.expensive],
        out,
        knobs={**config.knobs, **{name: getattr(fitted, name) for name in FITTED}},
        overwrite=overwrite,
        revision=git_revision(),
        made={
            "lm": lm_record(connection),
            "corpus": corpus_of(cascade),
            "data": {"train": describe(questions), **_searched(config, out), "train_path": str(config.fit)},
            "optimizer": {
                "name": "cascade",
                "arguments": {"metric": config.metric.name, "most_tokens": config.most_tokens},
                "cost": {**cost, "seconds": round(time.monotonic() - started, 1)},
                "budget": budget.limits if budget and budget.limited else None,
                "details": {**_described(asked, rule), **done},
            },
            "metric": config.metric.described,
        },
    )
    limit = _limit_note(config.most_tokens, done["fitted"]["tokens"])
    notes = (asked.note, seen_note(cascade, questions, "Fit"), limit)
    return record, [text for text in notes if text]


def _limit_note(most: float | None, tokens: float) -> str | None:
    if most is None or tokens <= most:
        return None
    return (
        f"The cheap artifact alone takes {tokens:.0f} tokens a question, more than the limit of {most:g}: the "
        "expensive one is never asked. Raise the limit."
    )


def _opened(config: CascadeConfig, lm: "LMSpec", budget: "Budget | None") -> "tuple[Cascade, Connection]":
    """Return the cascade before it is fitted, and the LM: opened as an artifact of both, so that it is what is used."""
    from programs.artifact import combine

    folders = [config.cheap, config.expensive]
    _check_lm(folders, lm)
    with tempfile.TemporaryDirectory() as temporary:
        unfitted = Path(temporary) / "cascade"
        combine("cascade", folders, unfitted, knobs=config.knobs)
        named = ProgramSpec(
            artifact=unfitted,
            index=config.index,
            retriever=config.retriever,
            rerank=config.rerank,
            sentences=config.sentences,
            accept_probability_mode=config.accept_probability_mode,
        )
        opened = AnswererSpec(named, lm, budget).with_defaults()[0].open()
    cascade: Any = opened.program
    warm_up(cascade, opened.connection)
    return cascade, opened.connection


def _searched(config: CascadeConfig, out: Path) -> dict[str, Any]:
    index = None if config.index is None else relative_path(config.index, out)
    stated = {"index": index, **{name: getattr(config, name) for name in RETRIEVAL}}
    return {name: value for name, value in stated.items() if value is not None}


def _check_lm(folders: Sequence[Path], lm: "LMSpec") -> None:
    """Raise UserError if no LM is named and the artifacts were compiled with different ones."""
    from programs.artifact import read_artifact

    ids = {record.lm.id for record in map(read_artifact, folders) if record.lm is not None}
    if lm.id is None and lm.api_base is None and len(ids) > 1:
        raise UserError(
            f"The artifacts were compiled with different LMs ({', '.join(sorted(ids))}): name the LM that both run on."
        )


def _described(asked: "AskedSamples", rule: "Fitted") -> dict[str, Any]:
    left_out = {"undefined": asked.undefined, "failed": asked.failed}
    validated = {name: round(gain, 4) for name, gain in rule.validated.items()}
    return {"rule": rule.rule, "validated": validated, "questions": len(asked.samples), **left_out}


def _on_training_questions(samples: "Sequence[CascadeSample]", fitted: "Cascade") -> dict[str, Any]:
    from optimizers.cascade.fitting import replayed

    cases = {"never": _NEVER, "fitted": fitted.threshold, "always": _ALWAYS}
    return {name: _means(replayed(samples, fitted.weights, at)) for name, at in cases.items()}


def _means(done: "ReplayedCascade") -> dict[str, float]:
    share = sum(done.asked) / len(done.asked)
    return {"score": round(done.score, 4), "tokens": round(done.cost, 1), "asked": round(share, 4)}
