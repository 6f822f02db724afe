"""Evaluate settings of knobs from a record alone, without the program, an LM or a retriever."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizers.evaluating import Outcome
from optimizers.replay.record import Record
from optimizers.replay.trees import walk
from programs.parts.knobs import check_knobs
from programs.parts.meter import Meter


@dataclass(frozen=True)
class Unseen(Outcome):
    """A question whose branch was never recorded: it has no score, and its costs are those of nothing."""


_NOTHING = Meter().counts()


def replay(record: Record, knobs: Mapping[str, Any], *, metric: str, ids: Sequence[str] | None = None) -> list[Outcome]:
    """Return what each question comes to with a setting of the knobs; `Unseen` where nothing was recorded.

    Scores, answers and costs are those of running the program with these knobs on the recorded LM and corpus, with no
    reply known before. Seconds are 0: they cannot be replayed.

    Args:
        record: The record of a run.
        knobs: Knobs that differ from those of the recorded program.
        metric: One of the recorded metrics.
        ids: Of questions; by default all that were recorded, in the order in which they were.

    Raises:
        UserError: A knob is unknown or not allowed, or the metric was not recorded.
    """
    record.check_metric(metric)
    check_knobs(record.cls, dict(knobs))
    setting, root = record.setting(knobs), record.root(knobs)
    return [outcome_of(record, id, root, setting, metric) for id in (record.questions if ids is None else ids)]


def outcome_of(record: Record, id: str, root: Any, setting: Mapping[str, Any], metric: str) -> Outcome:
    """Return what one question comes to with a setting of all knobs."""
    leaf = walk(record.tree(id, root), setting)
    return unseen(id) if leaf is None else record.outcome(id, leaf, metric)


def unseen(id: str) -> Unseen:
    """Return the outcome of a question whose branch was never recorded."""
    return Unseen(id, None, _NOTHING, 0.0)


def count_unseen(outcomes: Sequence[Outcome]) -> int:
    """Return how many questions are unseen."""
    return sum(isinstance(outcome, Unseen) for outcome in outcomes)
