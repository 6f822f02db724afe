"""`verihop programs`: list the programs with their papers, knobs and call bounds."""

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, say
from experiments.cli.shared.next_commands import QUESTION, command


def programs(as_json: options.Json = False) -> None:
    """List the programs with their papers, knobs and call bounds."""
    import sys

    from programs.catalog import PROGRAMS, build
    from programs.parts.knobs import knobs_of

    rows = {}
    for name, cls in PROGRAMS.items():
        document = sys.modules[cls.__module__].__doc__ or ""
        rows[name] = {
            "summary": document.splitlines()[0],
            "source": next((word.rstrip(".") for word in document.split() if word.startswith("https://")), ""),
            "presets": list(cls.PRESETS),
            "knobs": {
                knob.name: {"default": knob.default, "space": str(knob.space) if knob.space else None}
                for knob in knobs_of(cls).values()
            },
            "max_calls": build(name).max_calls(),
        }
    if as_json:
        emit(rows)
        return
    for name, row in rows.items():
        say(f"{name}: {row['summary']}")
        say(f"    {row['source']}")
        knobs = row["knobs"]
        listed = ", ".join(
            f"{knob}={value['default']}" + (f" ({value['space']})" if value["space"] else "")
            for knob, value in knobs.items()
        )
        say(f"    knobs: {listed or 'none'}")
        say(f"    presets: {', '.join(row['presets'])}; at most {row['max_calls']} LM calls a question")
    next_step(command("verihop", "ask", "--program", "cot", QUESTION))  # needs no index
