"""Fit the knobs of a program made of artifacts on training questions, and write it with what was found."""

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
from experiments.runs.specs import FittingSpec, ProgramSpec
from programs.artifacts.record import RETRIEVAL
from programs.inference import warm_up
from signatures.common.errors import UserError

if TYPE_CHECKING:
    import dspy

    from corpora.questions import Question
    from optimizers.evaluating import Outcome
    from optimizers.metrics.metric import Metric
    from programs.artifact import Artifact
    from programs.lms.calls.budget import Budget
    from programs.lms.connect import Connection
    from programs.lms.spec import LMSpec


@dataclass(frozen=True)
class Found:
    """What fitting found.

    Args:
        knobs: The fitted ones.
        arguments: Of the fitting, beside the metric.
        details: How good it is on the training questions, for the record.
        notes: For the user; None says nothing.
    """

    knobs: Mapping[str, Any]
    arguments: Mapping[str, Any]
    details: Mapping[str, Any]
    notes: Sequence[str | None] = field(default_factory=list)


Fit = Callable[[Any, "Sequence[dspy.Example]", "Callable[[Outcome], None]"], Found]  # program, examples, report


@dataclass(frozen=True)
class Combined:
    """What is fitted, and how.

    Args:
        kind: Of the new artifact, e.g. "cascade".
        folders: The artifacts that it consists of.
        spec: On which questions, and how they search.
        metric: Higher is better.
        knobs: Of the new program, those that are not fitted.
        fit: Asks and fits.
    """

    kind: str
    folders: Sequence[Path]
    spec: FittingSpec
    metric: "Metric"
    knobs: Mapping[str, Any]
    fit: Fit


def fitting_metric(spec: FittingSpec, knobs: Mapping[str, Any], fitted: Sequence[str]) -> "Metric":
    """Return the metric to fit for; raise UserError if it cannot be fitted for, or a knob is set that is fitted."""
    from optimizers.metrics.typed.opened import typed_metric

    metric = typed_metric(spec.metric)
    if metric.judged or not metric.higher_is_better:
        reason = "is decided by a judge LM" if metric.judged else "is better when lower"
        raise UserError(f"{metric.name} {reason}: fit for another metric, e.g. em.")
    if named := [name for name in fitted if name in knobs]:
        raise UserError(f"The knob {named[0]} is fitted on the questions: do not set it.")
    return metric


def fit_combined(
    what: Combined,
    questions: "Sequence[Question]",
    lm: "LMSpec",
    budget: "Budget | None",
    out: Path,
    *,
    overwrite: bool = False,
    report: "Callable[[Outcome], None] | None" = None,
) -> "tuple[Artifact, list[str]]":
    """Ask artifacts the training questions, fit the knobs of what they are combined to, and write that.

    Args:
        what: What is fitted, and how.
        questions: None may be of the split test.
        lm: Its id may be None: then it is the LM that the artifacts were compiled with.
        budget: On all LM calls.
        overwrite: Replace an existing artifact.
        report: Called with each outcome of an artifact, from several threads.

    Returns:
        The artifact, and notes: those of the fit, and how many questions the demonstrations show.

    Raises:
        UserError: `out` exists, the artifacts were compiled with different LMs and none is named, a question is of the
            split test, or too few of them have scores.
        BudgetExceeded: The budget is spent; nothing is written.
    """
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

    program, connection = _opened(what, lm, budget)
    with connection.use():
        found = what.fit(program, to_examples(questions), count)
    cost = {name: sum(outcome.costs[name] for outcome in outcomes) for name in outcomes[0].costs}
    record = combine(
        what.kind,
        what.folders,
        out,
        knobs={**what.knobs, **found.knobs},
        overwrite=overwrite,
        revision=git_revision(),
        made={
            "lm": lm_record(connection),
            "corpus": corpus_of(program),
            "data": {"train": describe(questions), **_searched(what.spec, out), "train_path": str(what.spec.fit)},
            "optimizer": {
                "name": what.kind,
                "arguments": {"metric": what.metric.name, **found.arguments},
                "cost": {**cost, "seconds": round(time.monotonic() - started, 1)},
                "budget": budget.limits if budget and budget.limited else None,
                "details": found.details,
            },
            "metric": what.metric.described,
        },
    )
    notes = (*found.notes, seen_note(program, questions, "Fit"))
    return record, [text for text in notes if text]


def _opened(what: Combined, lm: "LMSpec", budget: "Budget | None") -> "tuple[Any, Connection]":
    """Return the program before it is fitted, and the LM: opened as an artifact, so that it is what is used."""
    from programs.artifact import combine

    _check_lm(what.folders, lm)
    spec = what.spec
    with tempfile.TemporaryDirectory() as temporary:
        unfitted = Path(temporary) / what.kind
        combine(what.kind, what.folders, unfitted, knobs=what.knobs)
        named = ProgramSpec(
            artifact=unfitted,
            index=spec.index,
            retriever=spec.retriever,
            rerank=spec.rerank,
            sentences=spec.sentences,
            accept_probability_mode=spec.accept_probability_mode,
        )
        opened = AnswererSpec(named, lm, budget).with_defaults()[0].open()
    warm_up(opened.program, opened.connection)
    return opened.program, opened.connection


def _searched(spec: FittingSpec, out: Path) -> dict[str, Any]:
    index = None if spec.index is None else relative_path(spec.index, out)
    stated = {"index": index, **{name: getattr(spec, name) for name in RETRIEVAL}}
    return {name: value for name, value in stated.items() if value is not None}


def _check_lm(folders: Sequence[Path], lm: "LMSpec") -> None:
    """Raise UserError if no LM is named and the artifacts were compiled with different ones."""
    from programs.artifact import read_artifact

    ids = {record.lm.id for record in map(read_artifact, folders) if record.lm is not None}
    if lm.id is None and lm.api_base is None and len(ids) > 1:
        raise UserError(
            f"The artifacts were compiled with different LMs ({', '.join(sorted(ids))}): name the LM that both run on."
        )
