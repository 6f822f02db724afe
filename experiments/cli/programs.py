"""`verihop programs` and `verihop optimizers`: list the programs, and what optimizes them."""

from typing import Annotated, Any

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, say
from experiments.cli.shared.next_commands import QUESTION, command


def programs(as_json: options.Json = False) -> None:
    """List the programs with their papers, knobs and call bounds."""
    from programs.listing import listed

    rows = listed()
    if as_json:
        emit(rows)
        return
    for name, row in rows.items():
        say(f"{name}: {row['summary']}")
        say(f"    {row['source']}")
        knobs = row["knobs"]
        described = ", ".join(
            f"{knob}={value['default']}" + (f" ({value['space']})" if value["space"] else "")
            for knob, value in knobs.items()
        )
        say(f"    knobs: {described or 'none'}")
        say(f"    presets: {', '.join(row['presets'])}; at most {row['max_calls']} LM calls a question")
    next_step(command("verihop", "ask", "--program", "cot", QUESTION))  # needs no index


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

    rows = listed(program, preset=preset)
    if as_json:
        emit(rows)
        return
    for name, row in rows.items():
        say(f"{name}: {row['summary']}")
        say(f"    {row['source']}")
        for option, about in row["options"].items():
            say(f"    --option {option}={about['default']}: {about['help']}{_allowed(about)}")
        if row["needs"]:
            say(f"    needs: {', '.join(row['needs'])}")
        for other, reason in row["misfits"].items():
            say(f"    does not fit {other}: {reason}")
        if not row["misfits"]:
            say(f"    fits {program or 'every program'}")
    chosen = program or "genground"
    words = ("questions.jsonl", "--program", chosen, "--optimizer", "random_search", "--out", f"artifacts/{chosen}")
    next_step(command("verihop", "compile", *words, "--estimate"))


def _allowed(about: dict[str, Any]) -> str:
    """Return the values that an option may have, in brackets; nothing if any of its type may be."""
    if about["choices"]:
        return f" ({', '.join(map(str, about['choices']))})"
    low, high = about["low"], about["high"]
    if low is None and high is None:
        return ""
    return f" ({'' if low is None else f'{low:g}'}..{'' if high is None else f'{high:g}'})"
