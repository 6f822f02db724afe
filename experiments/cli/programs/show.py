"""`verihop programs [NAME]`: the programs, or one of them."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import show_rows
from experiments.cli.shared.next_commands import asking, command
from experiments.cli.shared.options import shown_names


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
    from signatures.common.errors import unknown
    from signatures.common.own_code import is_own

    rows = listed()
    if name is None:
        return show_rows(rows, _brief, then=command("verihop", "programs", "genground"), as_json=as_json)
    if is_own(name):
        rows = {name: _own(name)}
    if name not in rows:
        raise unknown("program", name, rows)
    if is_own(name):
        then = command("verihop", "programs", "check", name)
    else:
        then = asking(name, closed_book=rows[name]["family"] == "closed book")
    return show_rows({name: rows[name]}, _in_full, then=then, as_json=as_json)


def _own(name: str) -> dict[str, Any]:
    from programs.catalog import typed_program
    from programs.listing import describe

    return describe(typed_program(name))


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
