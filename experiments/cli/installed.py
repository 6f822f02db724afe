"""`verihop programs` lists the programs; `verihop doctor` checks the installation, an index and an LM."""

from pathlib import Path
from typing import Annotated

import typer

from experiments.cli import options
from experiments.cli.console import emit, next_step, say
from experiments.cli.next_commands import QUESTION, command
from experiments.cli.option_groups import with_option_groups

_DONE = {"ok": "Everything works.", "warning": "Everything works; see the warnings."}


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


@with_option_groups
def doctor(
    lm: options.LM,
    index: Annotated[Path | None, typer.Option(help="Also check this index.", show_default=False)] = None,
    as_json: options.Json = False,
) -> None:
    """Check Python, packages, weights, cache, an index and an LM; exit code 1 if something does not work."""
    from experiments.pipeline.doctor import examine

    checks = []
    for check in examine(lm.config(), index):
        checks.append(check)
        if not as_json:
            say(f"{check.state:<8} {check.name:<18} {check.found}")
            if check.cure:
                say(f"{'':<27} -> {check.cure}")
    failed = [check.name for check in checks if check.state == "failed"]
    if as_json:
        emit({"checks": [check.as_dict() for check in checks], "failed": failed})
    elif failed:
        say(f"\nDoes not work: {', '.join(failed)}.")
    else:
        say(f"\n{_DONE['warning' if any(check.state == 'warning' for check in checks) else 'ok']}")
    if failed:
        raise typer.Exit(1)
