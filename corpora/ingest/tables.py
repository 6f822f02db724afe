"""Tables as paragraphs: one for each row, every cell with its header: `Year: 1998; Author: A. Miller`."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from corpora.ingest.document import Paragraph

_LONGEST_HEADER = 100  # characters, which every row repeats
_LONGEST_CAPTION = 300  # characters, which every passage repeats
_MOST_COLUMNS = 1000  # that are read; a spreadsheet may have 16,384
_MOST_CELLS = 1 << 20  # of a table, counting merged ones as often as they show
_FEW_NAMES = 3  # of columns, which a merged cell names one by one
_SURE = 3  # columns of a sheet from which on a first row of words is a header, without more evidence
# Words, or years; what has other digits or ends a sentence is a value.
_HEADER = re.compile(r"(?!.*[.!?;]$)[^\d]{1,60}|(?:FY ?)?(?:1[5-9]|20)\d\d")


@dataclass(frozen=True, eq=False)
class Cell:
    """A cell of a table.

    Args:
        text: On one line; may be empty.
        header: Whether the document marks it as the header of a column or row.
        columns: How many it fills.
        rows: How many it fills.
    """

    text: str
    header: bool = False
    columns: int = 1
    rows: int = 1


def table_rows(
    rows: Iterable[Sequence[Cell]],
    *,
    caption: str = "",
    headers: int | None = None,
    page: int | None = None,
    sheet: bool = False,
) -> Iterator[Paragraph]:
    """Yield the rows of a table that are not empty, without those of its header, which each row repeats.

    A merged cell counts for every row and column that it fills. A row that is one merged cell names the rows below it.
    Without a header the cells of a row are separated by vertical bars; a table with a single column is not a table.

    Args:
        rows: Their cells, from left to right, as the document has them.
        caption: Of the table; "" if it has none.
        headers: Number of rows at its top that are its header; None to find out.
        page: Its page, from 1; None if the format has no pages.
        sheet: It is of a spreadsheet, where a first row of words in three or more columns is taken for its header.
    """
    grid = [row for row in _grid(rows) if any(cell and cell.text for cell in row)]
    width = max(map(len, grid), default=0)
    if width < 2:
        yield from (Paragraph(cell.text, page) for row in grid for cell in row if cell)
        return
    while len(grid) > 1 and not caption and _whole(grid[0], width):
        caption = _whole(grid.pop(0), width)
    caption = caption[:_LONGEST_CAPTION]
    count = _headers(grid, width, sheet=sheet) if headers is None else min(headers, len(grid) - 1)
    names = [_name(grid[:count], column) for column in range(width)]
    group, told = "", True
    for row in grid[count:]:
        if whole := _whole(row, width):
            if not told:
                yield Paragraph(group, page, table=caption)
            group, told = whole, False
            continue
        text = _row(row, names)
        yield Paragraph(f"{group}; {text}" if group else text, page, table=caption)
        told = True
    if not told:
        yield Paragraph(group, page, table=caption)


def _grid(rows: Iterable[Sequence[Cell]]) -> list[list[Cell | None]]:
    """Return rows of the same columns: a merged cell stands in each place that it fills."""
    grid: list[list[Cell | None]] = []
    below: dict[int, tuple[Cell, int]] = {}  # column -> a cell that goes on below, and for how many rows
    size = 0
    for cells in rows:
        row: list[Cell | None] = []
        waiting = iter(cells)
        left = below
        below = {}
        while len(row) < _MOST_COLUMNS:
            if len(row) in left:
                cell, more = left.pop(len(row))
                columns = 1
            elif (following := next(waiting, None)) is not None:
                cell, more, columns = following, following.rows - 1, max(1, following.columns)
            elif left:
                row.append(None)
                continue
            else:
                break
            for _ in range(min(columns, _MOST_COLUMNS - len(row))):
                if more > 0:
                    below[len(row)] = (cell, more - 1)
                row.append(cell)
        size += len(row)
        if size > _MOST_CELLS:  # merged cells that unfold without end, or data that nobody reads row by row
            below = {}
        grid.append(row)
    return grid


def _whole(row: Sequence[Cell | None], width: int) -> str:
    """Return the text of a row that is one merged cell, else ""."""
    first = row[0]
    return first.text if first is not None and len(row) == width and all(cell is first for cell in row) else ""


def _headers(grid: Sequence[Sequence[Cell | None]], width: int, *, sheet: bool) -> int:
    """Return how many rows at the top are a header."""
    marked = 0
    for row in grid[:-1]:
        if not all(cell is None or cell.header or not cell.text for cell in row):
            break
        marked += 1
    if marked or any(cell and cell.header for row in grid for cell in row):
        return marked
    if len(grid) < 2 or not _is_words(grid[0], width):
        return 0
    return int(_has_numbers(grid[1:], width) or (sheet and width >= _SURE))


def _is_words(row: Sequence[Cell | None], width: int) -> bool:
    """Return whether a first row may be a header: different words, or years, in all columns."""
    texts = [cell.text if cell else "" for cell in row]
    named = texts if texts[0] else texts[1:]  # the corner above the names of the rows may be empty
    return len(texts) == width and len(set(named)) == len(named) and all(map(_HEADER.fullmatch, named))


def _has_numbers(rows: Sequence[Sequence[Cell | None]], width: int) -> bool:
    """Return whether a column holds numbers only."""
    columns = ([cell.text for row in rows if n < len(row) and (cell := row[n]) and cell.text] for n in range(width))
    return any(column and all(re.search(r"\d", text) for text in column) for column in columns)


def _name(headers: Sequence[Sequence[Cell | None]], column: int) -> str:
    cells = dict.fromkeys(row[column] for row in headers if column < len(row))
    return " ".join(dict.fromkeys(cell.text for cell in cells if cell and cell.text))[:_LONGEST_HEADER].rstrip(": ")


def _row(row: Sequence[Cell | None], names: Sequence[str]) -> str:
    """Return a row as text."""
    parts: list[tuple[list[str], str, bool]] = []  # names of the columns, text, and whether that is a header itself
    before: Cell | None = None
    for name, cell in zip(names, row, strict=False):
        if cell is not None and cell is before:
            parts[-1][0].append(name)
        elif cell is not None and cell.text:
            parts.append(([name], cell.text, cell.header))
        before = cell if cell is not None and cell.text else None
    if any(names):
        return "; ".join(f"{name}: {text}" if (name := _joined(of)) else text for of, text, _ in parts)
    texts = [text for _, text, _ in parts]
    if parts[0][2] and len(parts) > 1:
        return f"{texts[0].rstrip(': ')}: {' | '.join(texts[1:])}"
    return " | ".join(texts)


def _joined(names: Sequence[str]) -> str:
    names = [name for name in dict.fromkeys(names) if name]
    return " / ".join(names) if len(names) <= _FEW_NAMES else f"{names[0]} to {names[-1]}"
