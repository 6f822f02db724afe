"""The progress of a compilation on standard error: one bar, and a line for each candidate that was scored."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from experiments.analysis.summary import percent
from signatures.common.progress import ProgressLine

if TYPE_CHECKING:
    from experiments.pipeline.compiling.estimate import CompileEstimate
    from optimizers.teleprompters.task import ScoredProgram


class CompileProgress(ProgressLine):
    """Shows runs, demonstrations and candidates.

    Args:
        estimate: Shown first; its runs are the length of the bar.
        metric: Name of the metric.
        shown: False prints nothing.
    """

    def __init__(self, estimate: "CompileEstimate", metric: str, *, shown: bool):
        total = estimate.runs.student + estimate.runs.teacher
        columns = ("what", "short bar", "count", "left")
        super().__init__(f"Compile ({estimate.optimizer})", *columns, total=total, shown=shown)
        self.update(visible=total > 0)
        self._estimate, self._metric = estimate, metric
        self._accepted = self._count = 0
        self._best_mean: float | None = None

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Show the progress inside the block."""
        self.say(str(self._estimate))
        with self:
            yield

    def ran(self) -> None:
        """Count a run of a program on a question."""
        self.update(advance=1)

    def tried(self, tried: int, accepted: int) -> None:
        """Show how many training questions make demonstrations."""
        self._accepted = accepted
        self._describe()

    def scored(self, candidate: "ScoredProgram") -> None:
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
        self.update(", ".join([f"Compile ({self._estimate.optimizer})", *figures]))
