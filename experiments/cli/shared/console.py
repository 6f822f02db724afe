"""Output of the commands: results on standard output, everything else on standard error.

Untrusted text (answers, passages, errors of servers) passes `signatures.common.terminal`, whatever prints it.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, Self

import typer

from signatures.common.logs import are_json, event
from signatures.common.terminal import open_console, printable, printable_json

WIDTH = 80  # characters of a line of text


def emit(value: dict[str, Any]) -> None:
    """Print one JSON object on standard output."""
    sys.stdout.write(printable_json(value) + "\n")


def say(text: str = "") -> None:
    """Print a line of results on standard output."""
    typer.echo(printable(text))


def wrapped(text: str, indent: int = 0, further: int = 0) -> str:
    """Return a text in lines of 80 characters, or longer ones where a word is longer; no word is broken.

    Args:
        text: One paragraph; spaces at its beginning are part of the indentation.
        indent: Spaces before its first line.
        further: More spaces before the other lines.
    """
    import textwrap

    words = text.lstrip(" ")
    indent += len(text) - len(words)
    return textwrap.fill(
        words,
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + further),
        break_on_hyphens=False,
        break_long_words=False,  # a URL that is cut cannot be opened
    )


def show(table: Any) -> None:
    """Print a rich table or group on standard output."""
    open_console().print(table)


def fits(table: Any) -> bool:
    """Return whether the terminal is as wide as a rich table needs."""
    console = open_console()
    unlimited = console.options.update(max_width=10_000)
    return bool(console.measure(table, options=unlimited).minimum <= console.width)


def note(text: str) -> None:
    """Print a message on standard error; where logs are JSON, as an event."""
    if are_json():
        event("note", message=text)
    else:
        typer.echo(printable(text), err=True)


def next_step(*commands: str) -> None:
    """Print the commands to run next, on standard error."""
    note("Next: " + "\n      ".join(commands))


def note_defaults(chosen: str | None) -> None:
    """Print what was chosen for the embedded LM, if anything, and how to get the paper's."""
    if chosen:
        note(f"For the embedded LM: {chosen}. Those of the paper: --preset paper.")


@contextlib.contextmanager
def resumable() -> Iterator[None]:
    """Print how to resume when Ctrl-C or a spent budget ends the block, and notices of its LM calls."""
    from programs.lms.calls.budget import BudgetExceeded
    from programs.lms.calls.control import controlled

    try:
        with controlled(note):
            yield
    except KeyboardInterrupt as interrupt:
        text = "Interrupted. Resume with the same command and --resume."
        note(text)
        interrupt.add_note(text)  # said already
        raise
    except BudgetExceeded:
        note("Stopped. Resume with the same command, --resume and a larger budget.")
        raise


@contextlib.contextmanager
def counter(what: str, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """Show a running count on standard error, for work of unknown length; yield the function that sets it."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = open_console(stderr=True, quiet=not shown)
    columns = (SpinnerColumn(), TextColumn("{task.description} {task.completed:.0f}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        line = bar.add_task(what, total=None)
        yield lambda done: bar.update(line, completed=done)


class Activity:
    """A line on standard error that says what is being done and for how long; on a terminal only.

    Args:
        what: What is being done first.
        shown: False shows nothing.
    """

    def __init__(self, what: str, *, shown: bool):
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = open_console(stderr=True)
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        hidden = not (shown and console.is_terminal)
        self._progress = Progress(*columns, console=console, transient=True, disable=hidden)
        self._task = self._progress.add_task(printable(what), total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @contextlib.contextmanager
    def paused(self, then: str) -> Iterator[None]:
        """Remove the line while the block prints results; `then` is what is done next."""
        self._progress.stop()
        try:
            yield
        finally:
            self._progress.update(self._task, description=printable(then))
            self._progress.start()


@contextlib.contextmanager
def transfer(what: str, *, shown: bool) -> Iterator[Callable[[int, int | None], None]]:
    """Show the progress of a download on standard error; yield the function that sets bytes done and in total."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    console = open_console(stderr=True, quiet=not shown)
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(TextColumn("{task.description}"), *columns, console=console) as bar:
        line = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(line, completed=done, total=total)
