"""What a run has cost in all its sessions, including questions that failed and those that ended without a row.

The rows of `rows.jsonl` contain the cost of each answer, failed ones included, and a question that is asked again keeps
its earlier row in the file. `costs.jsonl` has one line per session that was stopped, with the summed cost of the
questions that were in progress. Only a killed process loses the cost of these.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from experiments.runs.files import COSTS, ROWS, Json, checked_lines
from experiments.runs.models import Spent
from experiments.runs.row_log import RowLog

COUNTED = ("calls", "cached_calls", "prompt_tokens", "completion_tokens", "usd", "retries", "wait_seconds")


def log_unfinished(folder: Path, costs: Iterable[Mapping[str, float]]) -> None:
    """Append a line with the summed costs of questions without a row, unless they cost nothing."""
    costs = list(costs)
    total = added(costs)
    if total.get("calls"):
        with RowLog(folder, COSTS) as log:
            log.append({"unfinished": len(costs), **total})


def added(costs: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the sums of what is counted."""
    total: Counter[str] = Counter()
    for cost in costs:
        total.update({name: cost.get(name) or 0 for name in COUNTED})
    return {name: total[name] for name in COUNTED}


def spent(folder: Path) -> dict[str, float]:
    """Return the cost of a run's program in all sessions.

    Raises:
        UserError: A line is invalid.
    """
    return added([*_lines(folder / ROWS), *_lines(folder / COSTS)])


def judging_spent(folder: Path) -> dict[str, float]:
    """Return the cost of a run's judge in all sessions; empty without a judge."""
    total: Counter[str] = Counter()
    for row in _lines(folder / ROWS):
        total.update(row.get("judging") or {})
    return dict(total)


def _lines(path: Path) -> list[Json]:
    return [row for _, row in checked_lines(path, Spent)]
