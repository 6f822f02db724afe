"""Lists of what there is, such as programs and optimizers: each with summary, source and details."""

from collections.abc import Callable, Iterator
from typing import Any

from experiments.cli.shared.console import emit, next_step, say


def show_rows(
    rows: dict[str, dict[str, Any]], details: Callable[[dict[str, Any]], Iterator[str]], *, then: str, as_json: bool
) -> None:
    """Show each row with its summary, source and details, and then the next command; or the rows as JSON."""
    if as_json:
        emit(rows)
        return
    for name, row in rows.items():
        say(f"{name}: {row['summary']}")
        say(f"    {row['source']}".rstrip())
        for line in details(row):
            say(f"    {line}".rstrip())
    next_step(then)
