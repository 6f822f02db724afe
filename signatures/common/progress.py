"""A line on standard error that shows how far work is; messages are printed above it."""

from collections.abc import Callable
from functools import partial
from typing import Any, Self

from signatures.common.terminal import open_console


class ProgressLine:
    """Shows what is being done, and how far it is.

    Args:
        what: What is being done, as plain text.
        *columns: Names (see `_columns`), or templates of text such as "{task.fields[figures]}", which may have markup.
        total: Steps in all; None if unknown.
        completed: Steps of earlier sessions.
        shown: False shows nothing, no messages either.
        terminal: Show the line on a terminal only.
        **options: As for `rich.progress.Progress`.
    """

    def __init__(
        self,
        what: str,
        *columns: str,
        total: float | None = None,
        completed: int = 0,
        shown: bool,
        terminal: bool = False,
        **options: Any,
    ):
        from rich.markup import escape
        from rich.progress import Progress

        self._plain = escape
        self.console = open_console(stderr=True, quiet=not shown)
        hidden = not shown or (terminal and not self.console.is_terminal)
        self._bar = Progress(*_columns(columns), console=self.console, disable=hidden, **options)
        self._task = self._bar.add_task(escape(what), total=total, completed=completed, figures="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, what: str | None = None, **changes: Any) -> None:
        """Change the line: `what` is being done, `advance`, `completed`, `total`, `visible` or `figures`."""
        self._bar.update(self._task, description=None if what is None else self._plain(what), **changes)

    def say(self, text: str) -> None:
        """Print one line above."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


def _columns(names: tuple[str, ...]) -> list[Any]:
    from rich import progress

    known: dict[str, Callable[[], progress.ProgressColumn]] = {
        "what": partial(progress.TextColumn, "{task.description}"),
        "spinner": progress.SpinnerColumn,
        "bar": progress.BarColumn,
        "short bar": partial(progress.BarColumn, bar_width=16),
        "count": progress.MofNCompleteColumn,
        "percent": progress.TaskProgressColumn,
        "figures": partial(progress.TextColumn, "{task.fields[figures]}"),
        "elapsed": progress.TimeElapsedColumn,
        "left": progress.TimeRemainingColumn,
        "bytes": progress.DownloadColumn,
        "bytes per second": progress.TransferSpeedColumn,
    }
    return [known[name]() if name in known else progress.TextColumn(name) for name in names]
