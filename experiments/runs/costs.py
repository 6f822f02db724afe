"""What a run has cost in all its sessions, including questions that failed and those that ended without a row.

The rows of `rows.jsonl` contain the cost of each answer, failed ones included, and a question that is asked again keeps
its earlier row in the file. `costs.jsonl` has one line per session that was stopped, with the summed cost of the
questions that were in progress; only a killed process loses the cost of these. Of a recorded run it also has lines with
what branches cost beside the answers, which name them as `branches`.
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


def log_branches(folder: Path, cost: Mapping[str, float], *, judging: Mapping[str, float]) -> None:
    """Append a line with what recording branches, and judging them, has cost, unless no LM was called."""
    if cost.get("calls") or judging.get("calls"):
        judged = {"judging": dict(judging)} if judging else {}
        with RowLog(folder, COSTS) as log:
            log.append({"branches": True, **added([cost]), **judged})


def added(costs: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the sums of what is counted."""
    total: Counter[str] = Counter()
    for cost in costs:
        total.update({name: cost.get(name) or 0 for name in COUNTED})
    return {name: total[name] for name in COUNTED}


def spent(folder: Path) -> dict[str, float]:
    """Return the cost of a run's program in all sessions, branches included.

    Raises:
        UserError: A line is invalid.
    """
    return added([*_lines(folder / ROWS), *_lines(folder / COSTS)])


def branches_spent(folder: Path) -> dict[str, float]:
    """Return what the branches of a recorded run have cost in all sessions, as part of `spent`; empty without any."""
    lines = [line for line in _lines(folder / COSTS) if line.get("branches")]
    return added(lines) if lines else {}


def judging_spent(folder: Path) -> dict[str, float]:
    """Return the cost of a run's judge in all sessions; empty without a judge."""
    total: Counter[str] = Counter()
    for row in [*_lines(folder / ROWS), *_lines(folder / COSTS)]:
        total.update(row.get("judging") or {})
    return dict(total)


def _lines(path: Path) -> list[Json]:
    return [row for _, row in checked_lines(path, Spent)]
