"""`verihop replay`: the outcome of a recorded run with other thresholds."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, next_step, note, say, show
from experiments.cli.shared.next_commands import command, new_path, studied, typed_value
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from corpora.questions import Question
    from optimizers.replay.record import Record

_ON_A_SERVER = "server-"  # begins the model of an LM whose URL no run holds


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
    from experiments.pipeline.branches.recorder import replay_run

    found = replay_run(run, options.pairs(settings, form=("name=value", "threshold=0.5")))
    if as_json:
        emit(found.as_dict())
        return
    show(found.as_table())
    record = found.record
    knobs = ", ".join(f"{name}={record.knobs[name]}" for name in sorted(record.replayable))
    say(f"Recorded: {found.branches} branches of {len(record.questions)} questions, with {knobs}")
    if found.unseen:
        note(
            f"{found.unseen} questions take unrecorded branches: record more (eval --record-branches "
            "--branches N --resume), or let `verihop tune --replay RUN --buy` run them."
        )
    if (following := _study(run, record)) is not None:
        next_step(following)


def _study(run: Path, record: "Record") -> str | None:
    """Return the study that searches the recorded branches; None if the run does not say what it needs."""
    from corpora.questions import read_questions
    from experiments.runs.files import RUN, read_json
    from programs.parts.knobs import knobs_of

    try:
        told = read_json(run / RUN)
        questions, artifact = told["paths"]["questions"], told["paths"]["artifact"]
        every = read_questions(Path(questions))
        asked = [each for each in every if each.id in record.questions]
        selected = _selecting(every, set(record.questions))
        metric = studied(record.metrics, asked, fixed="given" in told)
        if selected is None or metric is None or told["lm"]["model"].startswith(_ON_A_SERVER):
            return None
        program = ["--program", record.name] if artifact is None else ["--artifact", artifact]
        lm = ["--lm", told["lm"]["id"]]
    except (UserError, KeyError, TypeError, AttributeError):
        return None
    known = knobs_of(record.cls)
    changed = {name: value for name, value in record.knobs.items() if name in known and value != known[name].default}
    knobs = [word for name, value in changed.items() for word in ("--set", f"{name}={typed_value(value)}")]
    words = [*program, *(knobs if artifact is None else ()), *lm, *selected, *metric]
    return command("verihop", "tune", questions, *words, "--replay", run, "--out", new_path(run.parent / "tuned"))


def _selecting(every: "Sequence[Question]", ids: set[str]) -> list[Any] | None:
    """Return the words that select the recorded questions of a file or of a split; None if no words do."""
    from corpora.questions import drawn

    for split in (None, *dict.fromkeys(each.split for each in every if each.split is not None)):
        chosen = [each.id for each in every if split in (None, each.split)]
        if ids and set(drawn(chosen, len(ids), str)) == ids:
            return [*(["--split", split] if split else []), *(["--limit", len(ids)] if len(chosen) > len(ids) else [])]
    return None
