"""Tables as benchmarks publish them: `.csv` and `.tsv` with a header row, compressed or not."""

import csv
from collections.abc import Iterator
from pathlib import Path

from corpora.compressed import read_lines
from corpora.jsonl import bad_line

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_COMPRESSED = (".gz", ".zst", ".bz2")


def delimiter_of(path: str) -> str | None:
    """Return the column separator of a file by its name; None if it is not a table."""
    file = Path(path)
    return _DELIMITERS.get((file.with_suffix("") if file.suffix in _COMPRESSED else file).suffix)


def read_table(path: str, delimiter: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield `(location, row)` of every row; fields may be in quotation marks, which are doubled inside.

    Raises:
        UserError: A row has more or fewer fields than there are columns, or a quotation mark is not closed.
    """
    # `.tsv` is parsed leniently, as by the official readers; its fields contain no line breaks, so one that does has
    # an unclosed quotation mark. In `.csv` line breaks are usual, and the parser itself must be strict.
    rows = csv.reader(_decoded(path), delimiter=delimiter, strict=delimiter == ",")
    columns: list[str] = []
    while True:
        line = rows.line_num + 1
        try:
            fields = next(rows, None)
        except csv.Error as error:
            raise bad_line(path, line, f"not a row of a table ({error})", "Close its quotation marks.") from error
        if fields is None:
            return
        if delimiter == "\t" and any("\n" in field for field in fields):
            raise bad_line(path, line, "a quotation mark is opened and not closed", "Fix the row.")
        if not fields:
            continue
        if not columns:
            columns = fields
        elif len(fields) != len(columns):
            why = f"{len(fields)} fields instead of {len(columns)} ({', '.join(columns)})"
            raise bad_line(path, line, why, "Fix the row.")
        else:
            yield f"{path}, line {line}", dict(zip(columns, fields, strict=True))


def _decoded(path: str) -> Iterator[str]:
    for number, raw in enumerate(read_lines(path), 1):
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8") + "\n"
        except UnicodeDecodeError as error:
            raise bad_line(path, number, "not UTF-8", "Convert the file to UTF-8.") from error
