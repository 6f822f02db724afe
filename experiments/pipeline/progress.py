"""The progress of a run on standard error."""

import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Self

from rich.markup import escape

from experiments.analysis.summary import percent
from experiments.runs.files import Row
from signatures.common.logs import event
from signatures.common.terminal import open_console


class RunProgress:
    """One progress bar with running score, cost and remaining time; messages are printed above it.

    Args:
        title: Shown before the bar.
        metric: Name of the metric whose running mean is shown; None for none.
        rows: Rows of earlier sessions.
        total: Rows of the complete run.
        shown: False prints nothing.
    """

    def __init__(self, title: str, *, metric: str | None, rows: Sequence[Row], total: int, shown: bool):
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.console = open_console(file=sys.stderr, quiet=not shown)
        self._metric = metric
        self._totals: dict[str, Any] = defaultdict(int)
        for row in rows:
            self._count(row)
        left = (TextColumn("{task.description}"), BarColumn(bar_width=16), MofNCompleteColumn())
        right = (TextColumn("{task.fields[figures]}"), TextColumn("ETA"), TimeRemainingColumn())
        # A question may take a minute: the pace is measured over ten minutes, not over rich's 30 seconds.
        self._progress = Progress(*left, *right, console=self.console, disable=not shown, speed_estimate_period=600)
        self._task = self._progress.add_task(escape(title), total=total, completed=len(rows), figures=self._figures())

    def _count(self, row: Row) -> None:
        # Running sums: adding up all rows for each new one would be slow on thousands.
        score = row["scores"].get(self._metric)
        self._totals["scored"] += score is not None
        self._totals["score"] += score or 0.0
        self._totals["calls"] += row["calls"] - row["cached_calls"]  # as the tokens: cached replies are free
        self._totals["tokens"] += row["prompt_tokens"] + row["completion_tokens"]
        self._totals["errors"] += row["error"] is not None

    def _figures(self) -> str:
        of = self._totals
        parts = [f"{escape(str(self._metric))} {percent(of['score'] / of['scored'])}"] if of["scored"] else []
        parts += [f"{of['calls']:,} paid calls", f"{of['tokens']:,} tokens"]
        return "  ".join(parts + ([f"[red]{of['errors']} errors[/red]"] if of["errors"] else []))

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def add(self, row: Row) -> None:
        """Show one more finished question."""
        self._count(row)
        self._progress.update(self._task, advance=1, figures=self._figures())

    def say(self, text: str) -> None:
        """Print one line above the bar; where logs are JSON, an event."""
        event("note", message=text)
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)
