"""The progress of a training run on standard error."""

import sys
from collections import deque
from typing import TYPE_CHECKING, Self

from signatures.common.terminal import open_console

if TYPE_CHECKING:
    from optimizers.distill.training.log import Step
    from optimizers.distill.training.train import Training


class TrainingProgress:
    """One progress bar with loss, tokens per second and remaining time; a line now and then where there is no terminal.

    Args:
        training: The run; its share that is done moves the bar.
        shown: False prints nothing.
        asked: What a program is asked at each measurement; empty without one.
    """

    def __init__(self, training: "Training", *, shown: bool, asked: str = ""):
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        self._training, self._asked = training, asked
        self._recent: deque[Step] = deque(maxlen=20)
        self._first: Step | None = None
        self.console = open_console(file=sys.stderr, quiet=not shown)
        columns = (
            TextColumn("Training"),
            BarColumn(bar_width=16),
            TaskProgressColumn(),
            TextColumn("{task.fields[figures]}"),
        )
        self._progress = Progress(*columns, console=self.console, disable=not shown)
        self._task = self._progress.add_task("training", total=1.0, figures="")
        self._lines = shown and not self.console.is_terminal
        self._last_line = 0.0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def add(self, step: "Step") -> None:
        """Show one more step."""
        self._first = self._first or step
        self._recent.append(step)
        figures = self._figures(step)
        self._progress.update(self._task, completed=step.progress, figures=figures)
        if self._lines and step.seconds - self._last_line >= 30:
            self._last_line = step.seconds
            self._say(f"{step.progress:.1%} {figures}")

    def measuring(self) -> None:
        """Say that weights are measured, which may take minutes."""
        self._say(f"Measuring{self._asked and f': {self._asked}'} ...")

    def _say(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _figures(self, step: "Step") -> str:
        losses = [one.loss for one in self._recent if one.loss is not None]
        loss = f"{sum(losses) / len(losses):.3f}" if losses else "not a number"
        total = self._training.total
        parts = [f"step {step.step:,}" + (f"/{total:,}" if total else ""), f"loss {loss}"]
        if skipped := self._training.skips.total:
            parts.append(f"{skipped:,} skipped")
        oldest = self._recent[0]
        if step.seconds > oldest.seconds:
            tokens = sum(one.tokens for one in list(self._recent)[1:])
            parts.append(f"{tokens / (step.seconds - oldest.seconds):,.0f} tokens/s")
        if self._first is not None and step.progress > self._first.progress:
            pace = (step.seconds - self._first.seconds) / (step.progress - self._first.progress)
            left = int(pace * (1 - step.progress))
            parts.append(f"ETA {left // 3600}:{left % 3600 // 60:02d}:{left % 60:02d}")
        return "  ".join(parts)
