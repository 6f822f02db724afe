"""`verihop programs check NAME`: whether a program keeps the contract of all programs."""

import contextlib
import sys
from typing import Annotated

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import next_step
from experiments.cli.shared.contract import show_points
from experiments.cli.shared.next_commands import asking
from experiments.cli.shared.options import program_names


def check(
    name: Annotated[
        str,
        typer.Argument(autocompletion=program_names, help="A program of your own as module:Class, or one of the list."),
    ],
    as_json: options.Json = False,
) -> None:
    """Check what a program owes to work in every command, without LM and index; exit 1 if it does not keep it."""
    from programs.catalog import typed_program
    from programs.own.contract import check_program, points

    with contextlib.redirect_stdout(sys.stderr):  # what a program prints is no result
        results = check_program(typed_program(name))
    show_points("program", name, results, len(points()), as_json=as_json)
    if not as_json:
        next_step(asking(name))
