"""The progress of a run on standard error."""

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from experiments.analysis.summary import percent
from experiments.runs.files import Row
from signatures.common.costs import paid
from signatures.common.logs import event
from signatures.common.progress import ProgressLine

if TYPE_CHECKING:
    import optuna

    from optimizers.distill.training.log import TrainingStep
    from optimizers.distill.training.train import Training


class RunProgress(ProgressLine):
    """One progress bar with running score, cost and remaining time; messages are printed above it.

    Args:
        title: Shown before the bar.
        metric: Name of the metric whose running mean is shown; None for none.
        rows: Rows of earlier sessions.
        total: Rows of the complete run.
        shown: False prints nothing.
    """

    def __init__(self, title: str, *, metric: str | None, rows: Sequence[Row], total: int, shown: bool):
        # A question may take a minute: the pace is measured over ten minutes, not over rich's 30 seconds.
        columns = ("what", "short bar", "count", "figures", "ETA", "left")
        super().__init__(title, *columns, total=total, completed=len(rows), shown=shown, speed_estimate_period=600)
        self._metric = metric
        self._totals: dict[str, Any] = defaultdict(int)
        for row in rows:
            self._count(row)
        self.update(figures=self._figures())

    def _count(self, row: Row) -> None:
        # Running sums: adding up all rows for each new one would be slow on thousands.
        score = row["scores"].get(self._metric)
        self._totals["scored"] += score is not None
        self._totals["score"] += score or 0.0
        for name, amount in paid(row).items():
            self._totals[name] += amount
        self._totals["errors"] += row["error"] is not None

    def _figures(self) -> str:
        of = self._totals
        parts = [f"{escape(str(self._metric))} {percent(of['score'] / of['scored'])}"] if of["scored"] else []
        parts += [f"{of['calls']:,} paid calls", f"{of['tokens']:,} tokens"]
        return "  ".join(parts + ([f"[red]{of['errors']} errors[/red]"] if of["errors"] else []))

    def add(self, row: Row) -> None:
        """Show one more finished question."""
        self._count(row)
        self.update(advance=1, figures=self._figures())

    def say(self, text: str) -> None:
        """Print one line above the bar; where logs are JSON, an event."""
        event("note", message=text)
        super().say(text)


class TrainingProgress(ProgressLine):
    """One progress bar with loss, tokens per second and remaining time; a line now and then where there is no terminal.

    Args:
        training: The run; its share that is done moves the bar.
        shown: False prints nothing.
        asked: What a program is asked at each measurement; empty without one.
    """

    def __init__(self, training: "Training", *, shown: bool, asked: str = ""):
        super().__init__("Training", "what", "short bar", "percent", "figures", total=1.0, shown=shown)
        self._training, self._asked = training, asked
        self._recent: deque[TrainingStep] = deque(maxlen=20)
        self._first: TrainingStep | None = None
        self._lines = shown and not self.console.is_terminal
        self._last_line = 0.0

    def add(self, step: "TrainingStep") -> None:
        """Show one more step."""
        self._first = self._first or step
        self._recent.append(step)
        figures = self._figures(step)
        self.update(completed=step.progress, figures=figures)
        if self._lines and step.seconds - self._last_line >= 30:
            self._last_line = step.seconds
            self.say(f"{step.progress:.1%} {figures}")

    def measuring(self) -> None:
        """Say that weights are measured, which may take minutes."""
        self.say(f"Measuring{self._asked and f': {self._asked}'} ...")

    def _figures(self, step: "TrainingStep") -> str:
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


class StudyProgress(ProgressLine):
    """A bar with the trials done, the best so far and the trial in progress."""

    def __init__(self, trials: int, *, shown: bool):
        super().__init__("Tune", "what", "bar", "count", "elapsed", total=trials, shown=shown)

    def done(self, finished: int) -> None:
        """Show how many trials are finished."""
        self.update("Tune", completed=finished)

    def trial(self, study: "optuna.Study", questions: int, number: int, done: int) -> None:
        """Show a trial in progress."""
        from optuna.trial import TrialState

        finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
        values = [trial.values[0] for trial in finished if trial.state == TrialState.COMPLETE and trial.values]
        best = f", best {100 * max(values):.1f} %" if values else ""
        self.update(f"Trial {number}: {done} of {questions} questions{best}", completed=len(finished))
