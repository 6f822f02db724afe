"""`verihop programs`: list the programs with their papers, knobs and call bounds."""

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
