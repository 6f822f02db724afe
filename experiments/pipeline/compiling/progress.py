"""The progress of a compilation on standard error: one bar, and a line for each candidate that was scored."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from experiments.analysis.summary import percent
from signatures.common.terminal import open_console

if TYPE_CHECKING:
    from experiments.pipeline.compiling.estimate import CompileEstimate
    from optimizers.teleprompters.task import Candidate


class CompileProgress:
    """Shows runs, demonstrations and candidates.

    Args:
        estimate: Shown first; its runs are the length of the bar.
        metric: Name of the metric.
        shown: False prints nothing.
    """

    def __init__(self, estimate: "CompileEstimate", metric: str, *, shown: bool):
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self.console = open_console(stderr=True, quiet=not shown)
        self._estimate, self._metric = estimate, metric
        self._accepted = self._count = 0
        self._best_mean: float | None = None
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=16), MofNCompleteColumn())
        self._bar = Progress(*columns, TimeRemainingColumn(), console=self.console)
        total = estimate.runs.student + estimate.runs.teacher
        self._line: Any = self._bar.add_task(f"Compile ({estimate.optimizer})", total=total, visible=total > 0)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Show the progress inside the block."""
        self.say(str(self._estimate))
        with self._bar:
            yield

    def say(self, text: str) -> None:
        """Print one line above the bar."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def ran(self) -> None:
        """Count a run of a program on a question."""
        self._bar.update(self._line, advance=1)

    def tried(self, tried: int, accepted: int) -> None:
        """Show how many training questions make demonstrations."""
        self._accepted = accepted
        self._describe()

    def scored(self, candidate: "Candidate") -> None:
        """Show a candidate that was scored."""
        self._count += 1
        if candidate.complete and (self._best_mean is None or candidate.mean > self._best_mean):
            self._best_mean = candidate.mean
        part = "" if candidate.complete else " (not the whole validation set)"
        self.say(
            f"{candidate.label}: {self._metric} {percent(candidate.mean)} on {len(candidate.scores)} questions{part}, "
            f"{candidate.n_calls:,} LM calls so far"
        )
        self._describe()

    def _describe(self) -> None:
        figures = [f"{self._accepted} accepted"] if self._accepted else []
        if self._best_mean is not None:
            figures = [f"{self._count} candidates", f"best {percent(self._best_mean)}"]
        self._bar.update(self._line, description=", ".join([f"Compile ({self._estimate.optimizer})", *figures]))
