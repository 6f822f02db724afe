"""`verihop replay`: what a recorded run comes to with other thresholds."""

from pathlib import Path
from typing import Annotated

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, note, say, show


def replay(
    run: Annotated[Path, typer.Argument(help="Folder of a run recorded with eval --record-branches.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A knob as name=value, repeatable, e.g. --set threshold=0.5.", show_default=False),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Score a recorded run with other knobs that only gates read, without an LM.

    Questions whose branch was never recorded are counted and left out.
    """
    from experiments.pipeline.branches.replayed import replay_run

    found = replay_run(run, options.parse_knobs(settings, example="--set threshold=0.5"))
    if as_json:
        emit(found.as_dict())
        return
    show(found.as_table())
    record = found.record
    knobs = ", ".join(f"{name}={record.knobs[name]}" for name in sorted(record.replayable))
    say(f"Recorded: {found.branches} branches of {len(record.questions)} questions, with {knobs}")
    if found.unseen:
        note(
            f"{found.unseen} questions go ways that were never recorded: record more (eval --record-branches "
            "--branches N --resume), or let `verihop tune --replay RUN --buy` ask for them."
        )
