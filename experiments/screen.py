"""What people see while a run goes on."""

import sys
from collections.abc import Sequence
from typing import Self

from rich.markup import escape

from experiments.runs import Row
from experiments.summary import percent


class Screen:
    """What people see on stderr: the estimate, one bar with running score, cost and ETA, and why a run stopped."""

    def __init__(self, *, shown: bool, title: str, metric: str | None, rows: Sequence[Row], total: int):
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self.console = Console(file=sys.stderr, quiet=not shown)
        self._metric, self._rows = metric, list(rows)
        left = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn())
        right = (TextColumn("{task.fields[figures]}"), TimeElapsedColumn(), TextColumn("ETA"), TimeRemainingColumn())
        # A question may take a minute: the pace is measured over ten of them, not over rich's 30 seconds.
        self._progress = Progress(*left, *right, console=self.console, disable=not shown, speed_estimate_period=600)
        self._task = self._progress.add_task(title, total=total, completed=len(rows), figures=self._figures())

    def _figures(self) -> str:
        scores = [row["scores"].get(self._metric) for row in self._rows]
        defined = [score for score in scores if score is not None]
        calls = sum(row["calls"] for row in self._rows)
        tokens = sum(row["prompt_tokens"] + row["completion_tokens"] for row in self._rows)
        errors = sum(row["error"] is not None for row in self._rows)
        parts = [f"{escape(str(self._metric))} {percent(sum(defined) / len(defined))}"] if defined else []
        parts += [f"{calls:,} calls", f"{tokens:,} tokens"] + ([f"[red]{errors} errors[/red]"] if errors else [])
        return "  ".join(parts)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def add(self, row: Row) -> None:
        """Show one more finished question."""
        self._rows.append(row)
        self._progress.update(self._task, advance=1, figures=self._figures())

    def say(self, text: str) -> None:
        """Print one line above the bar."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)
