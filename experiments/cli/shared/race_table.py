"""The table of a race of optimizers, for the terminal."""

from collections.abc import Mapping
from typing import Any

_CAPTION = (
    "Means over the n validation questions of an optimizer's last rung: compare rows of equal n. p: one-sided paired "
    "permutation test against the uncompiled program. Calls are over all rungs, as if none were cached; "
    "sent: those of this session that were not."
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
    names = [
        "optimizer",
        escape(metric),
        "95 % interval",
        "n",
        "p",
        "calls",
        "sent",
        *["usd"][: int(priced)],
        "outcome",
    ]
    table = Table(title="Race of the optimizers", caption=_CAPTION)
    for name in names:
        table.add_column(
            name, justify="left" if name in ("optimizer", "outcome") else "right", no_wrap=name != "outcome"
        )
    for row in race["rows"]:
        scored = "score" in row
        price = [f"{row['usd']:.4f}" if "usd" in row else "-"] if priced else []
        table.add_row(
            escape(row["optimizer"]),
            percent(row["score"]) if scored else "-",
            f"{percent(row['low'])} to {percent(row['high'])}" if scored else "-",
            str(row.get("n", "-")),
            f"{row['p']:.3f}" if "p" in row else "-",
            f"{row['calls']:,}" if "calls" in row else "-",
            f"{row['sent']:,}" if "sent" in row else "-",
            *price,
            escape(row["outcome"]),
        )
    return table
