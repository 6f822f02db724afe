"""The best trials of a study as a table."""

from typing import TYPE_CHECKING, Any

from experiments.analysis.statistics import mean_of
from experiments.analysis.tuning.findings import Findings
from optimizers.tuning.outcomes import COSTS
from optimizers.tuning.records import Trial, differing

if TYPE_CHECKING:
    from rich.table import Table

_SHOWN = 8


def ranked(found: Findings, most: int = _SHOWN, *, chosen: int | None = None) -> list[tuple[Trial, int]]:
    """Return the trials to show, each with the number of others that scored and cost the same on every question.

    They are the front, cheapest first, or else the best ones; the program as it was is among them, and the trial whose
    number is `chosen`.
    """
    if found.front:
        shown = [(trial, 0) for trial in found.front]
    else:
        complete = [trial for trial in found.trials if trial.complete and trial.score() is not None]
        complete.sort(
            key=lambda each: (not each.feasible(found.goal), -(each.score() or 0.0), each.cost("calls"), each.number)
        )
        alike: dict[str, list[Trial]] = {}
        for trial in complete:
            alike.setdefault(repr((trial.scores, trial.costs.get("calls"), trial.costs.get("tokens"))), []).append(
                trial
            )
        shown = [(group[0], len(group) - 1) for group in alike.values()][:most]
    numbers = {trial.number for trial, _ in shown}
    always = [trial for trial in found.trials if trial is found.baseline or trial.number == chosen]
    return shown + [(trial, 0) for trial in always if trial.number not in numbers]


def trials_table(found: Findings, present: dict[str, Any], *, metric: str, chosen: int | None) -> "Table":
    """Return a table of the best trials, or of the front.

    Args:
        found: Of a study.
        present: The setting of the program as it was.
        metric: Name of the score.
        chosen: The trial that was frozen.
    """
    from rich.table import Table
    from rich.text import Text

    title = "Pareto front" if found.front else "Best trials"
    table = Table(title=f"{title} (costs are means per question)")
    table.add_column("Trial", justify="right")
    table.add_column(Text(f"{metric} [95 %]"), justify="right")
    costs = [name for name in COSTS if any(name in trial.costs for trial in found.trials)]
    for name in costs:
        table.add_column(name, justify="right")
    table.add_column("Setting", overflow="fold")
    for trial, alike in ranked(found, chosen=chosen):
        mean = mean_of(trial.scores)
        ends = "" if mean.low is None or mean.high is None else f" [{100 * mean.low:.1f}, {100 * mean.high:.1f}]"
        changed = differing(trial.setting, present)
        text = ", ".join(f"{name}={_short(value)}" for name, value in changed.items()) or "as it was"
        marks = "" if trial.feasible(found.goal) else " (beyond the limits)"
        marks += f" ({alike} more with the same answers)" if alike else ""
        table.add_row(
            f"{trial.number}{'*' if trial.number == chosen else ''}",
            Text(f"{100 * (mean.mean or 0.0):.1f}{ends}"),
            *(_cost(name, trial.cost(name)) for name in costs),
            Text(text + marks),
        )
    return table


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _cost(name: str, value: float) -> str:
    return f"{value:.4f}" if name == "usd" else f"{value:,.0f}" if name == "tokens" else f"{value:.2f}"
