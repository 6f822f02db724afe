"""Change the rows of a run in place: `rows.jsonl` is written anew and renamed, so that it is never half changed."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from experiments.runs.files import ROWS, Row, complete_lines, key_of, read_rows, writing
from optimizers.metrics.names import with_current_names
from signatures.common.files import atomic_write
from signatures.common.secrets import redacted


def rewrite_rows(folder: Path, change: Callable[[Row], Row | None]) -> None:
    """Replace the last row of each question and repeat by what `change` returns for it.

    Earlier rows of a question that was asked again stay, because they contain what was spent.

    Args:
        folder: A run, locked by the caller (`run_lock`).
        change: Takes a row as it is in the file, with present names of metrics; None keeps it.

    Raises:
        UserError: A row is damaged, or the file cannot be written; it is then unchanged.
    """
    read_rows(folder, complete=True)  # checks every row
    lines = [json.loads(line) for _, line in complete_lines(folder / ROWS)]
    last = {key_of(row): place for place, row in enumerate(lines)}
    for place in last.values():
        row = lines[place]
        row |= {name: with_current_names(row[name]) for name in ("scores", "unparsed") if name in row}
        changed = change(row)
        lines[place] = row if changed is None else changed
    write_rows(folder, lines)


def write_rows(folder: Path, rows: Iterable[Row]) -> None:
    """Write all rows of a run, atomically, with keys hidden.

    Raises:
        UserError: The disk is full or the folder cannot be written; existing rows are kept.
    """
    path = folder / ROWS
    with writing(path), atomic_write(path, "wb") as file:
        for row in rows:
            file.write(json.dumps(redacted(row), ensure_ascii=False).encode(errors="replace") + b"\n")
