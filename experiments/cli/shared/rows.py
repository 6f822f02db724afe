"""Lists of what there is, such as programs and optimizers: each with summary, source and details."""

from collections.abc import Callable, Iterator
from typing import Any

from experiments.cli.shared.console import emit, next_step, say, wrapped

_INDENT = 4


def show_rows(
    rows: dict[str, dict[str, Any]], details: Callable[[dict[str, Any]], Iterator[str]], *, then: str, as_json: bool
) -> None:
    """Show each row with its summary, source and details, and then the next command; or the rows as JSON."""
    if as_json:
        emit(rows)
        return
    for name, row in rows.items():
        say(wrapped(f"{name}: {row['summary']}", further=_INDENT))
        say(wrapped(row["source"], _INDENT))
        for line in details(row):
            say(wrapped(line, _INDENT, 0 if line.startswith(" ") else 2))
    next_step(then)
