"""The table of a race of optimizers, for the terminal."""

from collections.abc import Mapping
from typing import Any

_CAPTION = (
    "Means over the n validation questions of an optimizer's last rung: compare rows of equal n. p: one-sided paired "
    "permutation test against the uncompiled program. LM calls sent, over all rungs; replies from the cache are free."
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

    table = Table(title="Race of the optimizers", caption=_CAPTION)
    for name in ("optimizer", escape(metric), "95 % interval", "n", "p", "LM calls", "usd", "outcome"):
        table.add_column(name, justify="left" if name in ("optimizer", "outcome") else "right")
    for row in race["rows"]:
        scored = "score" in row
        table.add_row(
            escape(row["optimizer"]),
            percent(row["score"]) if scored else "-",
            f"{percent(row['low'])} to {percent(row['high'])}" if scored else "-",
            str(row.get("n", "-")),
            f"{row['p']:.3f}" if "p" in row else "-",
            f"{row['calls']:,}" if "calls" in row else "-",
            f"{row['usd']:.4f}" if "usd" in row else "-",
            escape(row["outcome"]),
        )
    return table
