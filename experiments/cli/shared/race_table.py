"""The table of a race of optimizers, for the terminal."""

from collections.abc import Mapping
from typing import Any

_CAPTION = (
    "Means over the n validation questions of an optimizer's last rung: compare rows of equal n. p: one-sided paired "
    "permutation test of the best against the uncompiled program, on questions that were held back. Calls are over all "
    "rungs, as if none were cached; sent: those of this session that were not."
)


def race_table(race: Mapping[str, Any], metric: str) -> Any:
    """Return the table of a race (`optimizers/teleprompters/race/table.py`) for rich.

    Args:
        race: The table as JSON values.
        metric: Name of the metric.
    """
    from rich.markup import escape
    from rich.table import Table

    from experiments.analysis.summary import percent

    priced = any(row.get("usd") for row in race["rows"])
    numbers = [escape(metric), "95 % interval", "n", "p", "calls", "sent", *(["usd"] if priced else [])]
    table = Table(title="Race of the optimizers", caption=_CAPTION)
    table.add_column("optimizer", no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    for row in filter(lambda row: "calls" in row, race["rows"]):
        scored = "score" in row
        table.add_row(
            escape(row["optimizer"]),
            percent(row["score"]) if scored else "-",
            f"{percent(row['low'])} to {percent(row['high'])}" if scored else "-",
            str(row.get("n", "-")),
            f"{row['p']:.3f}" if "p" in row else "-",
            f"{row['calls']:,}",
            f"{row['sent']:,}",
            *([f"{row['usd']:.4f}"] if priced else []),
        )
    return table


def race_outcomes(race: Mapping[str, Any]) -> list[str]:
    """Return a line for each optimizer that was dropped, does not fit or was chosen, then why the race ended so."""
    lines = [f"{row['optimizer']}: {row['outcome']}" for row in race["rows"] if row["outcome"]]
    ended = [f"The race ended early: {race['stopped']}"] if race["stopped"] else []
    return [*lines, *ended, race["why"]]
