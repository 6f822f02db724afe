"""Tables of a PDF page, which has words at places and nothing else: lines whose gaps are aligned vertically.

What is not surely a table stays text: prose in columns, lists, and two lines that happen to have a gap.
"""

import itertools
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

_GAP = 1.5  # heights of a word between two cells; spaces of justified lines are narrower
_PROSE = 0.6  # of the width of the page's text: a line without gaps that is wider is prose
_FEWEST_ROWS = 3  # of two columns; with more columns one less
_FILLED = 0.6  # of the places of a table
_LONG_CELL = 8  # words on average: prose in columns has more
_SAME_LINE = 0.5  # heights by which words of one line may stand apart
_TIGHT = 0.8  # of the usual distance of lines: a closer one goes on in the same row
_APART = 2.2  # of the usual distance of lines: a farther one belongs to no table above it
_MARKER = re.compile(r"[•‣◦▪●○■–*·-]|\(?(?:\d{1,3}|[A-Za-z]|[ivx]{1,5})[.)]|\[\d{1,3}\]")  # of an item of a list


class Word(NamedTuple):
    """A word on a page, in points from its lower left corner.

    Args:
        text: Without white space.
        left: Where it begins.
        right: Where it ends.
        bottom: Where its letters stand.
        height: Of its letters.
    """

    text: str
    left: float
    right: float
    bottom: float
    height: float


@dataclass(frozen=True)
class PageTable:
    """A table on a page.

    Args:
        lines: Numbers of the lines that it takes, ascending.
        rows: Their cells as text, "" for empty ones; all rows have the same number.
    """

    lines: tuple[int, ...]
    rows: tuple[tuple[str, ...], ...]


class _Segment(NamedTuple):
    text: str
    left: float
    right: float


@dataclass
class _Visual:
    """What stands at one height: lines of the text, and their words in segments with gaps between them."""

    bottom: float
    lines: list[int] = field(default_factory=list)
    segments: list[_Segment] = field(default_factory=list)


def page_tables(lines: Sequence[Sequence[Word]]) -> list[PageTable]:
    """Return the tables of a page in the order of its lines.

    Args:
        lines: The words of each line of its text, in reading order.
    """
    words = [word for line in lines for word in line]
    if not words:
        return []
    height = statistics.median(word.height for word in words)
    width = max(word.right for word in words) - min(word.left for word in words)
    found: list[PageTable] = []
    block: list[int] = []
    for number, line in enumerate([*lines, ()]):
        segments = _segments(line, _GAP * height)
        if number == len(lines) or (len(segments) == 1 and segments[0].right - segments[0].left > _PROSE * width):
            found += _tables_of_block(_visual_lines(lines, block, height))
            block = []
        elif segments:
            block.append(number)
    return found


def _segments(words: Sequence[Word], gap: float) -> list[_Segment]:
    segments: list[_Segment] = []
    for word in sorted(words, key=lambda word: word.left):
        if segments and word.left - segments[-1].right < gap:
            before = segments[-1]
            segments[-1] = _Segment(f"{before.text} {word.text}", before.left, max(before.right, word.right))
        else:
            segments.append(_Segment(word.text, word.left, word.right))
    return segments


def _visual_lines(lines: Sequence[Sequence[Word]], block: Sequence[int], height: float) -> list[_Visual]:
    """Return lines from top to bottom; cells of a row may be lines of the text one after another."""
    found: list[_Visual] = []
    for number in sorted(block, key=lambda number: -statistics.median(word.bottom for word in lines[number])):
        bottom = statistics.median(word.bottom for word in lines[number])
        if not found or found[-1].bottom - bottom > _SAME_LINE * height:
            found.append(_Visual(bottom))
        found[-1].lines.append(number)
    for visual in found:
        visual.segments = _segments([word for number in visual.lines for word in lines[number]], _GAP * height)
    return found


def _tables_of_block(visual: Sequence[_Visual]) -> Iterator[PageTable]:
    start = 0
    while start < len(visual):
        end, columns = _run(visual, start)
        table = _table(visual[start:end], columns) if end - start >= 2 else None
        if table is None:
            start += 1
        else:
            yield table
            start = end


def _run(visual: Sequence[_Visual], start: int) -> tuple[int, list[tuple[float, float]]]:
    """Return the end of the lines from `start` on whose gaps are above each other, and their columns."""
    columns = [(segment.left, segment.right) for segment in visual[start].segments]
    if len(columns) < 2:
        return start, []
    end = start + 1
    pitch = visual[start].bottom - visual[end].bottom if end < len(visual) else 0.0
    for place in range(start + 1, len(visual)):
        line = visual[place]
        wider = _widened(columns, line.segments)
        if wider is None or visual[place - 1].bottom - line.bottom > _APART * pitch:
            break
        columns = wider
        if len(line.segments) > 1 or line.segments[0].left > columns[0][1]:  # one cell in the first column may be text
            end = place + 1
    return end, columns


def _widened(columns: Sequence[tuple[float, float]], segments: Sequence[_Segment]) -> list[tuple[float, float]] | None:
    """Return columns that have room for the segments of one more line; None if one of these fills two columns."""
    found = list(columns)
    for segment in segments:
        over = [n for n, (left, right) in enumerate(found) if segment.left < right and left < segment.right]
        if len(over) > 1:
            return None
        if over:
            left, right = found[over[0]]
            found[over[0]] = (min(left, segment.left), max(right, segment.right))
        else:
            found.append((segment.left, segment.right))
    found.sort()
    return found if all(one[1] <= other[0] for one, other in itertools.pairwise(found)) else None


def _table(visual: Sequence[_Visual], columns: Sequence[tuple[float, float]]) -> PageTable | None:
    """Return the table of a run of lines; None if it is none."""
    rows = [_cells(line.segments, columns) for line in visual]
    full = [row for row in rows if sum(map(bool, row)) > 1]
    if len(full) < _FEWEST_ROWS - (len(columns) > 2):
        return None
    if any(sum(bool(row[n]) for row in full) * 2 < len(full) for n in range(len(columns))):
        return None
    cells = [cell for row in full for cell in row if cell]
    if len(cells) < _FILLED * len(full) * len(columns):
        return None
    if sum(len(cell.split()) for cell in cells) > _LONG_CELL * len(cells):
        return None
    if len(columns) == 2 and all(_MARKER.fullmatch(row[0]) for row in full if row[0]):
        return None
    lines = sorted(number for line in visual for number in line.lines)
    return PageTable(tuple(lines), tuple(map(tuple, _joined(visual, rows))))


def _cells(segments: Sequence[_Segment], columns: Sequence[tuple[float, float]]) -> list[str]:
    row = [""] * len(columns)
    for segment in segments:
        column = next(n for n, (left, right) in enumerate(columns) if left <= segment.left <= right)
        row[column] = f"{row[column]} {segment.text}".strip()
    return row


def _joined(visual: Sequence[_Visual], rows: Sequence[list[str]]) -> list[list[str]]:
    """Return rows with cells of several lines joined.

    A line goes on the row above it if it is closer to it than lines usually are, or has a single cell, not the first.
    """
    pitches = [one.bottom - other.bottom for one, other in itertools.pairwise(visual)]
    usual = statistics.median(sorted(pitches)[len(pitches) // 2 :])
    found = [list(rows[0])]
    for row, pitch in zip(rows[1:], pitches, strict=True):
        alone = not row[0] and sum(map(bool, row)) == 1
        if pitch < _TIGHT * usual or alone:
            found[-1] = [f"{above} {cell}".strip() for above, cell in zip(found[-1], row, strict=True)]
        else:
            found.append(list(row))
    return found
