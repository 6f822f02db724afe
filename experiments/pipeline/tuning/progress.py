"""The progress of a study on stderr."""

import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from programs.lms.calls.control import controlled
from signatures.common.terminal import open_console

if TYPE_CHECKING:
    import optuna


class StudyProgress:
    """A bar with the trials done, the best so far and the trial in progress.

    Args:
        trials: Of the whole study.
        shown: Whether anything is shown.
    """

    def __init__(self, trials: int, *, shown: bool):
        self._console = open_console(stderr=True, quiet=not shown)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=self._console)
        self._line = self._bar.add_task("Tune", total=trials)

    def __enter__(self) -> "StudyProgress":
        self._bar.start()
        return self

    def expect(self, trials: int) -> None:
        """Set the number of trials, once it is known what is searched."""
        self._bar.update(self._line, total=trials)

    def done(self, finished: int) -> None:
        """Show how many trials are finished."""
        self._bar.update(self._line, completed=finished, description="Tune")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._console.print(text, markup=False, highlight=False)

    @contextlib.contextmanager
    def controlled(self) -> Iterator[None]:
        """Show notices of LM calls, and stop those of threads that are left when the block ends."""
        with controlled(self.say):
            yield

    def update(self, study: "optuna.Study", questions: int, number: int, done: int) -> None:
        """Show a trial in progress."""
        from optuna.trial import TrialState

        finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
        values = [trial.values[0] for trial in finished if trial.state == TrialState.COMPLETE and trial.values]
        best = f", best {100 * max(values):.1f} %" if values else ""
        self._bar.update(
            self._line, completed=len(finished), description=f"Trial {number}: {done} of {questions} questions{best}"
        )
