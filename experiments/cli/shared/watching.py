"""How runs and services are watched: spans of OpenTelemetry, and logs as JSON lines."""

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from experiments.cli.shared.console import note
from experiments.cli.shared.failures import user_error_message
from experiments.cli.shared.options import Output
from signatures.common.errors import UserError

if TYPE_CHECKING:
    import dspy

Otel = Annotated[
    bool,
    typer.Option(
        "--otel",
        help="Send questions, LM calls and searches as spans of OpenTelemetry, where its variables OTEL_... say.",
    ),
]

LOG_VARIABLE = "VERIHOP_LOG"
FORMS = ("text", "json", "json:debug")
Log = Annotated[
    str | None,
    typer.Option(
        help="Messages on standard error: text, json (an object per line; no texts of questions or answers), or "
        f"json:debug (with them); by default the variable {LOG_VARIABLE}, else text.",
        show_default=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Watched(Output):
    """What is printed, logged and sent."""

    otel: Otel = False
    log: Log = None


@contextlib.contextmanager
def logged_as_asked(asked: str | None) -> Iterator[None]:
    """Write messages and events of a command in the block as its option `--log` says.

    Args:
        asked: The value of the option; None if it was not given.

    Raises:
        UserError: There are no such logs.
    """
    form = form_of_logs(asked)
    if form == "text":
        yield
        return
    from signatures.common.logs import json_logs

    with json_logs(debug=form.endswith("debug")), _ends_as_events():
        yield


def form_of_logs(asked: str | None) -> str:
    """Return the form that is asked for, else that of the variable, else text.

    Raises:
        UserError: There is no such form.
    """
    form = asked or os.environ.get(LOG_VARIABLE) or "text"
    if form not in FORMS:
        raise UserError(f"There are no logs of the form {form!r}. Choose from: {', '.join(FORMS)}.")
    return form


@contextlib.contextmanager
def _ends_as_events() -> Iterator[None]:
    """Log what ends the block as an event, in place of the line that commands print; exit codes stay."""
    from signatures.common.logs import crashed, event

    try:
        yield
    except KeyboardInterrupt as interrupt:
        event("interrupted")
        interrupt.add_note("interrupted")  # said already
        raise
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        in_words = getattr(error, "format_message", None)  # of Typer's errors in the words of a command
        if known := in_words() if in_words else user_error_message(error):
            event("user_error", level=logging.ERROR, message=known)
            raise typer.Exit(2) from error
        crashed(error)
        raise typer.Exit(1) from error
    except BaseException as end:
        if type(end).__name__ != "BudgetExceeded":  # by name: its import would load the LM stack
            raise
        event("budget_exceeded", level=logging.ERROR, message=str(end))
        raise typer.Exit(3) from end


@contextlib.contextmanager
def spans_sent(wanted: bool) -> Iterator[Callable[["dspy.Module"], "dspy.Module"]]:
    """Send spans of the questions in the block, if wanted; yield what lets the searches of a program be spans, too."""
    if not wanted:
        yield lambda program: program
        return
    from programs.tracing.questions import traced_by
    from programs.tracing.spans import open_spans

    spans = open_spans(note)
    try:
        with traced_by(spans):
            yield spans.traced
    finally:
        spans.close()
