"""`verihop doctor`: check the installation, an index and an LM, and say what to do about what does not work."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, say
from experiments.cli.shared.next_commands import QUESTION, command, used
from experiments.cli.shared.options import with_option_groups
from programs.lms.spec import LMSpec

_DONE = {"ok": "Everything works.", "warning": "Everything works; see the warnings."}


@with_option_groups
def doctor(
    lm: LMSpec,
    index: Annotated[Path | None, typer.Option(help="Also check this index.", show_default=False)] = None,
    as_json: options.Json = False,
) -> None:
    """Check the installation, an index and an LM, and say how to fix what does not work (then exit code 1)."""
    from experiments.pipeline.doctor import examine

    checks = []
    for check in examine(lm.for_threads(), index):
        checks.append(check)
        if not as_json:
            say(f"{check.state:<8} {check.name:<18} {check.found}")
            if check.cure:
                say(f"{'':<27} -> {check.cure}")
    failed = [check.name for check in checks if check.state == "failed"]
    if as_json:
        emit({"checks": [asdict(check) for check in checks], "failed": failed})
    elif failed:
        say(f"\nDoes not work: {', '.join(failed)}.")
    else:
        say(f"\n{_DONE['warning' if any(check.state == 'warning' for check in checks) else 'ok']}")
    if failed:
        raise typer.Exit(1)
    if not as_json:
        reading = ("--program", "cot") if index is None else ("--program", "rag", "--index", index)
        next_step(command("verihop", "ask", *reading, *used(lm), QUESTION))
