"""What commands print: results on standard output, everything else on standard error."""

import json
import sys
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
