"""`verihop programs`: without a word it lists them, with a name it shows one."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from experiments.cli.shared import options
from experiments.cli.shared.app import App, ByName
from experiments.cli.shared.console import next_step, show_points, show_rows
from experiments.cli.shared.next_commands import asking, command
from experiments.cli.shared.options import program_names, shown_names
from signatures.common.errors import unknown
from signatures.common.own_code import is_own


def check(
    name: Annotated[
        str,
        typer.Argument(autocompletion=program_names, help="Your own program as module:Class, or one of the list."),
    ],
    as_json: options.Json = False,
) -> None:
    """Check that a program works in every command, without LM and index; exit 1 if it does not."""
    from programs.catalog import typed_program
    from programs.own.contract import check_program, points

    with contextlib.redirect_stdout(sys.stderr):  # what a program prints is no result
        results = check_program(typed_program(name))
    show_points("program", name, results, len(points()), as_json=as_json)
    if not as_json:
        next_step(asking(name))


def show(
    name: Annotated[
        str | None,
        typer.Argument(
            autocompletion=shown_names,
            help="Show this program, of the list or module:Class: algorithm, prompts, presets and knobs.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List the programs with their papers, knobs and call bounds, or show one of them."""
    from programs.listing import listed

    rows = listed()
    if name is None:
        return show_rows(rows, _brief, then=command("verihop", "programs", "genground"), as_json=as_json)
    if is_own(name):
        from programs.catalog import typed_program
        from programs.listing import describe

        rows = {name: describe(typed_program(name))}
        then = command("verihop", "programs", "check", name)
    elif name in rows:
        then = asking(name, closed_book=rows[name]["family"] == "closed book")
    else:
        raise unknown("program", name, rows)
    return show_rows({name: rows[name]}, _in_full, then=then, as_json=as_json)


def _brief(row: dict[str, Any]) -> Iterator[str]:
    knobs = ", ".join(f"{knob}={value['default']}{_space(value)}" for knob, value in row["knobs"].items())
    year = f", {row['year']}" if row["year"] else ""
    yield f"family: {row['family']}{year}"
    yield f"knobs: {knobs or 'none'}"
    yield f"presets: {', '.join(row['presets'])}; {_bounds(row)}"


def _in_full(row: dict[str, Any]) -> Iterator[str]:
    yield from ("", *row["algorithm"], "", f"{_bounds(row)[0].upper()}{_bounds(row)[1:]}.")
    for predictor, prompt in row["prompts"].items():
        yield from ("", f"Prompt of {predictor}: {', '.join(prompt['inputs'])} -> {', '.join(prompt['outputs'])}")
        for number, paragraph in enumerate(prompt["instructions"].split("\n\n")):
            yield from ("", f"  {paragraph}") if number else (f"  {paragraph}",)
    yield ""
    for preset, knobs in row["preset_knobs"].items():
        said = " ".join(f"{knob}={value}" for knob, value in knobs.items())
        yield f"--preset {preset}: {said or 'the defaults'}"
    for knob, value in row["knobs"].items():
        meaning = value["meaning"] or "not described below Args: in the docstring of its class."
        yield f"--set {knob}={value['default']}{_space(value)}: {meaning}"


def _bounds(row: dict[str, Any]) -> str:
    sequence = "" if row["max_sequential_calls"] == row["max_calls"] else f", {row['max_sequential_calls']} in sequence"
    return f"a question takes at most {row['max_calls']} LM calls{sequence}"


def _space(knob: dict[str, Any]) -> str:
    return f" ({knob['space']})" if knob["space"] else ""


programs = App(
    cls=ByName,
    help="List the programs with their papers, knobs and call bounds; with a NAME (or module:Class) show one of them.",
    subcommand_metavar="[NAME | check NAME] [--json]",
)
programs.command("show")(show)
programs.command("check")(check)
