"""`verihop optimizers`: list what optimizes programs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import show_rows
from experiments.cli.shared.next_commands import command, index_here, new_path
from experiments.cli.shared.options import program_names


def optimizers(
    program: Annotated[
        str | None,
        typer.Option(
            autocompletion=program_names,
            help="Show which of them are applicable to this program, and why others are not.",
            show_default=False,
        ),
    ] = None,
    preset: Annotated[str, typer.Option(help="Preset of --program.")] = "paper",
    as_json: options.Json = False,
) -> None:
    """List the optimizers with their options, what they need, and the programs they do not fit."""
    from optimizers.teleprompters.catalog import listed

    def details(row: dict[str, Any]) -> Iterator[str]:
        for option, about in row["options"].items():
            yield f"--option {option}={about['default']}{_allowed(about)}: {about['help']}"
        if row["needs"]:
            yield f"needs: {', '.join(row['needs'])}"
        for other, reason in row["misfits"].items():
            yield f"does not fit {other}: {reason}"
        if not row["misfits"]:
            yield f"fits {program or 'every program'}"

    chosen = program or "genground"
    show_rows(listed(program, preset=preset), details, then=_then(chosen), as_json=as_json)


def _then(program: str) -> str:
    """Return the estimate of a compilation where the working folder has questions and an index, else the program."""
    questions, index = Path("questions.jsonl"), index_here()
    if index is None or not questions.is_file():
        return command("verihop", "programs", program)
    words = ("--program", program, "--index", index, "--optimizer", "random_search")
    out = new_path(Path("artifacts") / program.rpartition(":")[2])
    return command("verihop", "compile", questions, *words, "--out", out, "--estimate")


def _allowed(about: dict[str, Any]) -> str:
    """Return the values that an option may have, in brackets; nothing if any of its type may be."""
    if about["choices"]:
        return f" ({', '.join(map(str, about['choices']))})"
    low, high = about["low"], about["high"]
    if low is None and high is None:
        return ""
    return f" ({'' if low is None else f'{low:g}'}..{'' if high is None else f'{high:g}'})"
