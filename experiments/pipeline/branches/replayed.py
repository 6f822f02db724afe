"""What a recorded run comes to with another setting of its program's knobs, beside what it came to."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.analysis.statistics import Mean, Paired, mean_of, paired
from optimizers.evaluating import Outcome
from optimizers.replay.record import Record
from optimizers.replay.record_files import load_record
from optimizers.replay.replaying import Unseen, replay

if TYPE_CHECKING:
    from rich.table import Table

_COSTS = ("calls", "tokens")


@dataclass(frozen=True)
class Line:
    """One metric or cost, on the questions whose branch with the setting was recorded.

    Args:
        name: Of the metric or cost.
        recorded: With the knobs of the recorded program.
        replayed: With the setting.
        difference: Replayed minus recorded, on the same questions.
    """

    name: str
    recorded: Mean
    replayed: Mean
    difference: Paired


@dataclass(frozen=True)
class Replayed:
    """A record, and what a setting comes to.

    Args:
        record: Of the run.
        knobs: The setting: knobs that differ from the recorded ones, or not.
        branches: Recorded in all.
        unseen: Questions whose branch with the setting was never recorded; no number is of them.
        lines: Metrics, then costs.
    """

    record: Record
    knobs: dict[str, Any]
    branches: int
    unseen: int
    lines: list[Line]

    def as_dict(self) -> dict[str, Any]:
        """Return all as JSON values."""
        return {
            "program": self.record.name,
            "recorded_knobs": self.record.knobs,
            "knobs": self.knobs,
            "replayable": sorted(self.record.replayable),
            "questions": len(self.record.questions),
            "branches": self.branches,
            "unseen": self.unseen,
            "results": {
                line.name: {
                    "recorded": line.recorded.as_dict(),
                    "replayed": line.replayed.as_dict(),
                    "difference": line.difference.as_dict(),
                }
                for line in self.lines
            },
        }

    def as_table(self) -> "Table":
        """Return the results as a table."""
        from rich.table import Table
        from rich.text import Text

        setting = " ".join(f"{name}={value}" for name, value in self.knobs.items()) or "the same"
        count = len(self.record.questions)
        table = Table(title=f"{self.record.name}: {count - self.unseen} of {count} questions replayed")
        table.add_column("")
        for column in ("as recorded", setting, "difference, 95 % interval"):
            table.add_column(Text(column), justify="right", overflow="fold")
        for line in self.lines:
            scale, digits = (1.0, 2) if line.name in _COSTS else (100.0, 1)
            numbers = (line.recorded.mean, line.replayed.mean)
            cells = ["" if each is None else f"{scale * each:,.{digits}f}" for each in numbers]
            spread = (line.difference.difference, line.difference.low, line.difference.high)
            shown = ["" if each is None else f"{scale * each:+,.{digits}f}" for each in spread]
            table.add_row(Text(line.name), *cells, f"{shown[0]} [{shown[1]}, {shown[2]}]" if all(shown) else shown[0])
        return table


def replay_run(folder: Path, knobs: Mapping[str, Any]) -> Replayed:
    """Return what the recorded run in a folder comes to with a setting of knobs.

    Raises:
        UserError: There is no record, it is damaged, or a knob is unknown, not allowed, or one that no gate
            reads and that was not recorded.
    """
    record = load_record(folder)
    replay(record, knobs, metric=record.metrics[0], ids=())  # names and values first
    record.check_root(knobs)
    lines, unseen = [], 0
    for metric in record.metrics:
        old, new = replay(record, {}, metric=metric), replay(record, knobs, metric=metric)
        seen = [pair for pair in zip(old, new, strict=True) if not any(isinstance(each, Unseen) for each in pair)]
        unseen = len(old) - len(seen)
        lines.append(_line(metric, [(one.score, other.score) for one, other in seen]))
        if metric == record.metrics[-1]:
            lines += [_line(name, [(_cost(one, name), _cost(other, name)) for one, other in seen]) for name in _COSTS]
    branches = sum(record.count(id, root) for id, root, _ in record.trees())
    return Replayed(record, dict(knobs), branches, unseen, lines)


def _line(name: str, pairs: list[tuple[float | None, float | None]]) -> Line:
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    return Line(name, mean_of(first), mean_of(second), paired(first, second))


def _cost(outcome: Outcome, name: str) -> float:
    return float(getattr(outcome, name))
