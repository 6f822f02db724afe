"""What the commands of this folder share: their last line of defence, and how they say what they do."""

import sys
from collections.abc import Callable
from typing import Any

import typer

from signatures.common.errors import UserError


def run_command(command: Callable[[], Any], name: str) -> None:
    """Run a command; an error that the user can cure is one line, and ends with code 2.

    Args:
        command: Without arguments; reads the command line.
        name: In front of the error.
    """
    try:
        command()
    except UserError as error:
        typer.echo(f"{name}: {error}", err=True)
        sys.exit(2)


def help_of(docstring: str | None) -> str:
    """Return a docstring as help that is wrapped at the width of the terminal; indented paragraphs stay as they are."""
    paragraphs = (docstring or "").strip("\n").split("\n\n")
    return "\n\n".join(
        f"\b\n{each}" if each.startswith(" ") else " ".join(each.split()) for each in paragraphs if each.strip()
    )


def say(text: str) -> None:
    """Print the title of a step on standard error."""
    typer.echo(f"\n== {text}", err=True)
