"""What the commands of this folder share: their last line of defence, how they say what they do, and how they round."""

import sys
from collections.abc import Callable
from typing import Any

import typer

from signatures.common.errors import UserError, unknown


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


def names(kind: str, text: str, known: tuple[str, ...]) -> list[str]:
    """Return the names in a text, separated by commas, each once.

    Raises:
        UserError: There is none, or one is not known.
    """
    found = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not found:
        raise UserError(f"No {kind} is named. Choose from: {', '.join(known)}.")
    for name in found:
        if name not in known:
            raise unknown(kind, name, known)
    return found


def say(text: str) -> None:
    """Print the title of a step on standard error."""
    typer.echo(f"\n== {text}", err=True)


def rounded(value: float | None) -> float | None:
    """Return a score with as many digits as are recorded; None where it is undefined."""
    return None if value is None else round(value, 4)
