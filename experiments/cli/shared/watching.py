"""How runs and services are watched: spans of OpenTelemetry."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import dspy

Otel = Annotated[
    bool,
    typer.Option(
        "--otel",
        help="Send questions, LM calls and searches as spans of OpenTelemetry, where its variables OTEL_... say.",
    ),
]


@contextlib.contextmanager
def spans_sent(wanted: bool) -> Iterator[Callable[["dspy.Module"], "dspy.Module"]]:
    """Send spans of the questions in the block, if wanted; yield what lets the searches of a program be spans, too."""
    if not wanted:
        yield lambda program: program
        return
    from programs.tracing.questions import traced_by
    from programs.tracing.spans import open_spans

    spans = open_spans()
    try:
        with traced_by(spans):
            yield spans.traced
    finally:
        spans.close()
