"""`verihop trace`: what was said between a program and its LM."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli.shared import options
from experiments.cli.shared.console import emit, fits, next_step, note, say, show, show_call
from experiments.cli.shared.next_commands import command
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from experiments.analysis.calls import Trace

_LISTED = 20


def trace(
    run: Annotated[Path, typer.Argument(help="A run folder of `verihop eval`.")],
    question: Annotated[
        str | None,
        typer.Argument(
            help="Id of a question, or words that only it contains; without it the questions are listed, worst first.",
            show_default=False,
        ),
    ] = None,
    call: Annotated[int | None, typer.Option(min=1, help="Show this call in full.", show_default=False)] = None,
    predictor: Annotated[
        str | None, typer.Option(help="Show the calls of this predictor in full.", show_default=False)
    ] = None,
    repeat: Annotated[int | None, typer.Option(min=1, help="Which repeat of the question.", show_default="1")] = None,
    as_json: options.Json = False,
) -> None:
    """Show the LM calls behind an answer of a run: prompts as sent, replies, tokens, seconds, errors."""
    from experiments.analysis.calls import trace_of

    if question is None:
        if call is not None or predictor is not None or repeat is not None:
            raise UserError("Give the question whose call or repeat to show.")
        _list(run, as_json=as_json)
        return
    number = 1 if repeat is None else repeat
    found = trace_of(run, question, number)
    chosen = found if predictor is None else found.of_predictor(predictor)
    chosen = chosen if call is None else chosen.of_number(call)
    if as_json:
        emit(chosen.as_dict())
        return
    _show(chosen, whole=call is not None or predictor is not None)
    if chosen is found and found.calls:
        worst = next((each for each in found.calls if each["error"] or each["unreadable"]), found.calls[0])
        next_step(_tracing(run, found.row["id"], number, "--call", worst["call"]))


def _tracing(run: Path, id: str, repeat: int, *options: object) -> str:
    """Return the command that shows a question; its id may begin as an option does."""
    options = (*(() if repeat == 1 else ("--repeat", repeat)), *options)
    if id.startswith("-"):
        return command("verihop", "trace", run, *options, "--", id)
    return command("verihop", "trace", run, id, *options)


def _list(run: Path, *, as_json: bool) -> None:
    from experiments.analysis.calls import traced_questions

    found = traced_questions(run)
    if as_json:
        emit(found.as_dict())
        return
    table = found.as_table(_LISTED)
    if fits(table):
        show(table)
    else:
        say("\n".join(found.as_lines(_LISTED)))
    if len(found.rows) > _LISTED:
        note(f"The first {_LISTED} of {len(found.rows)} answers; all of them with --json.")
    worst = found.rows[0]
    next_step(_tracing(run, worst["id"], worst.get("repeat", 1)))


def _show(found: "Trace", *, whole: bool) -> None:
    row = found.row
    which = f" (repeat {row['repeat']})" if "repeat" in row else ""
    say(f"{row['id']}{which}: {row['question']}")
    scores = ", ".join(f"{name} {'-' if value is None else f'{value:.2f}'}" for name, value in row["scores"].items())
    say(f"Answer: {row['answer'] or '(none)'}  (gold: {' / '.join(row['answers']) or 'none'}; {scores})")
    for number, hop in enumerate(row["hops"], start=1):
        say(f"Hop {number}: {hop['question']} -> {hop['answer'] or '(no answer)'}")
    if row["error"]:
        say(f"Error: {row['error']}")
    say()
    if not found.kept:
        note("The LM calls of this answer were not kept.")
    elif not found.calls:
        note("No LM call was made for this answer.")
    for call in found.calls:
        show_call(call, whole=whole)
