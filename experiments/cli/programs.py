"""`verihop programs` and `verihop optimizers`: list the programs, and what optimizes them."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, say
from experiments.cli.shared.next_commands import QUESTION, command


def programs(
    name: Annotated[
        str | None, typer.Argument(help="Show this program: its algorithm, prompts, presets and knobs.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List the programs with their papers, knobs and call bounds, or show one of them."""
    from programs.listing import listed
    from signatures.common.errors import unknown

    rows = listed()
    if name is None:
        return _show(rows, _brief, then=command("verihop", "programs", "genground"), as_json=as_json)
    if name not in rows:
        raise unknown("program", name, rows)
    words = ("ask", "--program", name, *(() if rows[name]["family"] == "closed book" else ("--index", "runs/index")))
    return _show({name: rows[name]}, _in_full, then=command("verihop", *words, QUESTION), as_json=as_json)


def _brief(row: dict[str, Any]) -> Iterator[str]:
    knobs = ", ".join(f"{knob}={value['default']}{_space(value)}" for knob, value in row["knobs"].items())
    year = f", {row['year']}" if row["year"] else ""
    yield f"family: {row['family']}{year}"
    yield f"knobs: {knobs or 'none'}"
    yield f"presets: {', '.join(row['presets'])}; at most {row['max_calls']} LM calls a question"


def _in_full(row: dict[str, Any]) -> Iterator[str]:
    yield from ("", *row["algorithm"], "", f"At most {row['max_calls']} LM calls a question.")
    for predictor, prompt in row["prompts"].items():
        yield from ("", f"Prompt of {predictor}: {', '.join(prompt['inputs'])} -> {', '.join(prompt['outputs'])}")
        yield from (f"  {line}" for line in prompt["instructions"].splitlines())
    yield ""
    for preset, knobs in row["preset_knobs"].items():
        said = " ".join(f"{knob}={value}" for knob, value in knobs.items())
        yield f"--preset {preset}: {said or 'the defaults'}"
    for knob, value in row["knobs"].items():
        yield f"--set {knob}={value['default']}{_space(value)}: {value['meaning']}"


def _space(knob: dict[str, Any]) -> str:
    return f" ({knob['space']})" if knob["space"] else ""


def optimizers(
    program: Annotated[
        str | None,
        typer.Option(help="Only say which of them fit this program, and why others do not.", show_default=False),
    ] = None,
    preset: Annotated[str, typer.Option(help="Preset of --program.")] = "paper",
    as_json: options.Json = False,
) -> None:
    """List the optimizers with their options, what they need, and the programs they do not fit."""
    from optimizers.teleprompters.listing import listed

    def details(row: dict[str, Any]) -> Iterator[str]:
        for option, about in row["options"].items():
            yield f"--option {option}={about['default']}: {about['help']}{_allowed(about)}"
        if row["needs"]:
            yield f"needs: {', '.join(row['needs'])}"
        for other, reason in row["misfits"].items():
            yield f"does not fit {other}: {reason}"
        if not row["misfits"]:
            yield f"fits {program or 'every program'}"

    chosen = program or "genground"
    words = ("questions.jsonl", "--program", chosen, "--optimizer", "random_search", "--out", f"artifacts/{chosen}")
    then = command("verihop", "compile", *words, "--estimate")
    _show(listed(program, preset=preset), details, then=then, as_json=as_json)


def _show(
    rows: dict[str, dict[str, Any]], details: Callable[[dict[str, Any]], Iterator[str]], *, then: str, as_json: bool
) -> None:
    """Show each row with its summary, source and details, and then the next command; or the rows as JSON."""
    if as_json:
        emit(rows)
        return
    for name, row in rows.items():
        say(f"{name}: {row['summary']}")
        say(f"    {row['source']}")
        for line in details(row):
            say(f"    {line}".rstrip())
    next_step(then)


def _allowed(about: dict[str, Any]) -> str:
    """Return the values that an option may have, in brackets; nothing if any of its type may be."""
    if about["choices"]:
        return f" ({', '.join(map(str, about['choices']))})"
    low, high = about["low"], about["high"]
    if low is None and high is None:
        return ""
    return f" ({'' if low is None else f'{low:g}'}..{'' if high is None else f'{high:g}'})"
