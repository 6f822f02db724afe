"""What commands print: results on standard output, everything else on standard error."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import typer


def emit(value: dict[str, Any]) -> None:
    """Print one JSON object on standard output."""
    json.dump(value, sys.stdout, ensure_ascii=False, default=str)
    sys.stdout.write("\n")


def say(text: str = "") -> None:
    """Print a line for people on standard output."""
    typer.echo(text)


def note(text: str) -> None:
    """Print a line about the work on standard error."""
    typer.echo(text, err=True)


def next_step(*commands: str) -> None:
    """Say what to run next."""
    note("Next: " + "\n      ".join(commands))


@contextlib.contextmanager
def resumable() -> Iterator[None]:
    """Say how to go on when Ctrl-C or a spent budget ends the work inside."""
    from programs.lms.budget import BudgetExceeded

    try:
        yield
    except KeyboardInterrupt:
        note("Interrupted. The same command with --resume goes on from here.")
        raise
    except BudgetExceeded:
        note("Stopped. The same command with --resume and a larger budget goes on from here.")
        raise


@contextlib.contextmanager
def counter(what: str, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """Show how many things are done, on standard error, while their number is not known beforehand."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, quiet=not shown)
    columns = (SpinnerColumn(), TextColumn("{task.description} {task.completed:.0f}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        line = bar.add_task(what, total=None)
        yield lambda done: bar.update(line, completed=done)


@contextlib.contextmanager
def transfer(what: str, *, shown: bool) -> Iterator[Callable[[int, int | None], None]]:
    """Show how many bytes of a download have come, and of how many, on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True, quiet=not shown)
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(TextColumn("{task.description}"), *columns, console=console) as bar:
        line = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(line, completed=done, total=total)
