"""PDF as a document: the text of its pages by PDFium, and the headings of its outline.

PDFium was chosen on five manuals whose text is known: as good as the best, many times faster, and permissively licensed
(`experiments/benchmarks/README.md`). It is not safe under threads; `ingest.py` reads files in processes.

Scanned pages are recognized by RapidOCR, whose models its package brings, on OpenVINO: Latin and Chinese script.
Nothing is fetched.
"""

import bisect
import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from corpora.ingest.document import LONGEST_NAME, Document, Heading, Paragraph, make_document
from corpora.ingest.pdf_tables import Word, page_tables
from corpora.ingest.tables import Cell, table_rows
from signatures.common.errors import UserError, needing

_EDGE = 2  # lines at the top and at the bottom of a page that may be running ones
_REPEATS = 3  # pages from which on such a line is a running one
_SHORT = 0.8  # of the longest lines: a shorter one that ends a sentence ends its paragraph
_LONGEST_HEADING = 4  # lines
# Both begin where a run of such characters does, so that a long line takes time in proportion to its length.
_LEADERS = re.compile(r"(?<!\.)(?<!\.\s)(?:\.\s?){5,}+\s*(?:\d{1,4}|[ivxlc]{1,7})$")  # of a table of contents
_ENTRIES = 3  # such lines from which on a page has one
# A colon ends what may stand alone: a list or a quotation follows. The full-width one is the same sign in Chinese text.
_ENDS = (".", "!", "?", ":", "。", "！", "？", "：")
_CLOSING = "\"'”’»)]」』）】"  # may follow an end
_TABLE = "\ue000"  # begins a line that stands for a table
_CAPTION = re.compile(r"(?:table|tab\.|tabelle|tableau|tabla|tabella)\s.{0,200}", re.IGNORECASE)
_HYPHEN = "\ufffe"  # PDFium's sign for a hyphen at the end of a line
_DIVIDED = re.compile(rf"(?<!\w)(\w++){_HYPHEN}(\w+)")
_ITEM = re.compile(r"^(?:[•‣◦▪●○■–*-]|\(?(?:\d{1,3}|[a-z])[.)])\s+\S")
_NUMBERING = re.compile(
    r"^(?:(?:chapter|appendix|part|section)\s+)?(?:[A-Z]|\d+|[IVXLC]+)?(?:\.\d+)*[.:]?\s+", re.IGNORECASE
)


@dataclass(frozen=True)
class Outlined:
    """An entry of the outline: level from 1 and title."""

    level: int
    title: str


def dehyphenated(pages: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the lines with divided words joined; a hyphen is kept where the document writes the word with one."""
    words = Counter(word for lines in pages for line in lines for word in re.findall(r"[\w-]+", line))

    def join(match: re.Match[str]) -> str:
        first, second = match.groups()
        hyphenated = f"{first}-{second}"
        compound = not second[0].islower() or (words[hyphenated] > 0 and not words[first + second])
        return hyphenated if compound else first + second

    return [[_DIVIDED.sub(join, line).replace(_HYPHEN, "-").strip() for line in lines] for lines in pages]


def running_lines(pages: Sequence[Sequence[str]]) -> set[str]:
    """Return the running headers and footers, digits as `#`: first or last lines that several pages share."""
    edges = Counter(edge for lines in pages for edge in {_digitless(line) for line in _edges(lines)})
    # Rows of numbers are alike, too: only a number alone is that of a page.
    return {
        edge
        for edge, count in edges.items()
        if count >= _REPEATS and (edge.strip("-–—/ ") == "#" or re.search(r"[^\W\d_]", edge))
    }


def content_lines(lines: Sequence[str], running: set[str]) -> list[str]:
    """Return the lines of a page without blank ones, running ones at its edges, and entries of a table of contents."""
    kept = [line for line in lines if line.strip()]
    for edge in (0, -1):
        for _ in range(_EDGE):
            if kept and _digitless(kept[edge]) in running:
                kept.pop(edge)
    entries = [line for line in kept if _LEADERS.search(line)]
    return [line for line in kept if line not in entries] if len(entries) >= _ENTRIES else kept


def ends_sentence(text: str) -> bool:
    """Return whether a text ends with a sentence, or with a colon; brackets and quotation marks may follow."""
    return text.rstrip(_CLOSING).endswith(_ENDS)


def _edges(lines: Sequence[str]) -> list[str]:
    full = [line for line in lines if line.strip()]
    return full[:_EDGE] + full[-_EDGE:]


def _digitless(line: str) -> str:
    return re.sub(r"\d+|\b[ivxlc]+\b", "#", " ".join(line.split()))


def blocks_of_page(
    lines: Sequence[str], outline: Sequence[Outlined], page: int, tables: Sequence[Sequence[Paragraph]] = ()
) -> list[Heading | Paragraph]:
    """Return headings and paragraphs of a page.

    Args:
        lines: Those of the page, in reading order, none blank.
        outline: Entries that lead to this page. One whose title is not found among the lines comes before them.
        page: Number of the page, from 1.
        tables: Rows of each table; its number is in the lines, in the place of the table.
    """
    found, start = [], 0
    places = _places(lines) if outline else {}
    for entry in outline:
        place = _find(entry.title, lines, places, start)
        if place is None:
            found.append((start, start, entry))
        else:
            found.append((*place, entry))
            start = place[1]
    blocks: list[Heading | Paragraph] = []
    done = 0
    full = _full_length(lines)
    for first, last, entry in found:
        blocks += _text_blocks(lines[done:first], full, page, tables)
        blocks.append(Heading(entry.level, entry.title))
        done = last
    blocks += _text_blocks(lines[done:], full, page, tables)
    return blocks


def _text_blocks(
    lines: Sequence[str], full: float, page: int, tables: Sequence[Sequence[Paragraph]]
) -> Iterator[Paragraph]:
    """Yield the paragraphs of lines, and the rows of the tables among them."""
    for is_table, group in itertools.groupby(lines, key=lambda line: line.startswith(_TABLE)):
        if is_table:
            yield from (row for line in group for row in tables[int(line[1:])])
        else:
            yield from (Paragraph(text, page) for text in _paragraphs(group, full))


def _places(lines: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
    """Return where each text of a few lines stands, with and without its number: first and last line (exclusive)."""
    places: dict[str, list[tuple[int, int]]] = {}
    for first in range(len(lines)):
        text = ""
        for last in range(first, min(first + _LONGEST_HEADING, len(lines))):
            text = f"{text} {lines[last]}".strip()
            if len(text) > LONGEST_NAME:
                break
            for letters in {_letters(text), _letters(_NUMBERING.sub("", text, count=1))}:
                places.setdefault(letters, []).append((first, last + 1))
    return places


def _find(
    title: str, lines: Sequence[str], places: Mapping[str, Sequence[tuple[int, int]]], start: int
) -> tuple[int, int] | None:
    """Return first and last line (exclusive) of a title at or after `start`, with or without its number."""
    found = places.get(_letters(title), ())
    at = bisect.bisect_left(found, (start, 0))
    if not _letters(title) or at == len(found):
        return None
    first, end = found[at]
    numbered = first > start and not _letters(_NUMBERING.sub("", f"{lines[first - 1]} ", count=1))
    return first - numbered, end  # "Chapter 4" may stand on a line of its own


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def _full_length(lines: Sequence[str]) -> float:
    """Return the length of a line that fills the column: that of the longest tenth."""
    lengths = sorted(map(len, lines))
    return lengths[int(0.9 * (len(lengths) - 1))] if lengths else 0


def _paragraphs(lines: Iterable[str], full: float) -> Iterator[str]:
    """Yield lines joined to paragraphs; a short line that ends a sentence ends one, an item of a list begins one."""
    paragraph: list[str] = []
    for line in lines:
        if paragraph and _ITEM.match(line):
            yield " ".join(paragraph)
            paragraph = []
        paragraph.append(line)
        if len(line) < _SHORT * full and ends_sentence(line):
            yield " ".join(paragraph)
            paragraph = []
    if paragraph:
        yield " ".join(paragraph)


_FILE_NAMES = (".doc", ".docx", ".odt", ".tex", ".dvi", ".indd", ".pdf", ".ps", ".qxd", ".rtf")
_RUN = re.compile(r"\S+")
_EMPTY = 0.2  # of the pages: more without text are not only covers and backs
_MOST_NAMED = 10  # pages without text
_OCR = "scanned ones are recognized with --ocr (pip install 'verihop[ocr]')"
_PASSWORD = 4  # FPDF_ERR_PASSWORD


@dataclass(frozen=True)
class _Page:
    """The text of a page, in whose place a table is a line with its number, and the rows of its tables.

    Args:
        lines: Those of its text, blank ones as well.
        tables: Rows of each.
        scanned: Whether it has a picture and no text.
    """

    lines: list[str]
    tables: list[list[Paragraph]]
    scanned: bool = False

    def has_text(self) -> bool:
        return any(line.strip() for line in self.lines)


def read_pdf(data: bytes, *, ocr: bool = False) -> Document:
    """Return the document in the bytes of a PDF file; its paragraphs have pages, counted from 1.

    Running headers and footers and tables of contents with leaders are left out, words divided at the end of a line are
    joined, and the entries of the outline become headings where their page has them. Tables are found by the places of
    their words.

    Args:
        data: The bytes.
        ocr: Recognize the text of scanned pages, which takes a second or more for each.

    Raises:
        UserError: It is no PDF, is protected by a password, or has pages but no text; or the packages of the extra
            `ocr` are missing.
    """
    import pypdfium2

    try:
        with pypdfium2.PdfDocument(data) as pdf:
            pages = [_page(page, number, ocr) for number, page in enumerate(pdf, start=1)]
            outline = _outline(pdf)
            stated = _title(pdf)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD or "password" in str(error).lower():
            raise UserError("it is protected by a password: save it without a password") from error
        raise UserError(f"it cannot be read as PDF ({error})") from error
    if pages and not any(page.has_text() for page in pages):
        raise UserError(f"its pages have no text: {'none was recognized' if ocr else _OCR}")
    document = make_document(_blocks(pages, outline), "" if stated.lower().endswith(_FILE_NAMES) else stated)
    return replace(document, notes=tuple(_notes(pages, ocr)))


def _notes(pages: Sequence[_Page], ocr: bool) -> Iterator[str]:
    scanned = [number for number, page in enumerate(pages, start=1) if page.scanned]
    if scanned:
        numbers = ", ".join(map(str, scanned[:_MOST_NAMED])) + (", ..." if len(scanned) > _MOST_NAMED else "")
        why = "no text was recognized on them" if ocr else _OCR
        yield f"{len(scanned)} of its {len(pages)} pages are pictures without text (page {numbers}): {why}"
    empty = sum(not page.has_text() for page in pages) - len(scanned)
    if empty > _EMPTY * len(pages):
        yield f"{empty} of its {len(pages)} pages have no text"


def _title(pdf: Any) -> str:
    try:
        return " ".join(pdf.get_metadata_value("Title").split())
    except UnicodeError:
        return ""


def _page(page: Any, number: int, ocr: bool) -> _Page:
    import pypdfium2.raw

    text = page.get_textpage()
    try:
        found: str = text.get_text_range()
        content = _with_tables(found.replace("\0", "").replace(_TABLE, " "), text, number)
        pictures = not content.has_text() and any(page.get_objects([pypdfium2.raw.FPDF_PAGEOBJ_IMAGE], max_depth=5))
        if not pictures:
            return content
        lines = recognized_lines(page) if ocr else []
        return _Page(lines, [], scanned=not lines)
    finally:
        text.close()
        page.close()


def _with_tables(found: str, text: Any, number: int) -> _Page:
    """Return a page with its tables; without them where PDFium's characters are not those of the text."""
    lines = found.splitlines(keepends=True)
    plain = [line.rstrip("\r\n") for line in found.splitlines()]
    if len(found) != text.count_chars():
        return _Page(plain, [])
    starts = itertools.accumulate((len(line) for line in lines), initial=0)
    tables = page_tables([_words(line, start, text) for start, line in zip(starts, lines, strict=False)])
    rows: list[list[Paragraph]] = []
    gone: set[int] = set()
    for table in tables:
        first = table.lines[0]
        captioned = first > 0 and first - 1 not in gone and _CAPTION.fullmatch(plain[first - 1].strip())
        caption = plain[first - 1].strip() if captioned else ""
        gone.update(table.lines[1:], [first - 1] if captioned else ())
        plain[first] = f"{_TABLE}{len(rows)}"
        cells = [[Cell(_whole_words(cell)) for cell in row] for row in table.rows]
        rows.append(list(table_rows(cells, caption=_whole_words(caption), page=number)))
    return _Page([line for place, line in enumerate(plain) if place not in gone], rows)


def _whole_words(text: str) -> str:
    return text.replace(f"{_HYPHEN} ", "").replace(_HYPHEN, "-")


def _words(line: str, start: int, text: Any) -> list[Word]:
    """Return the words of a line, whose first character is number `start` of the page."""
    words = []
    for match in _RUN.finditer(line):
        left, bottom, _, top = text.get_charbox(start + match.start())
        _, low, right, high = text.get_charbox(start + match.end() - 1)
        words.append(Word(match[0], left, right, min(bottom, low), max(top, high) - min(bottom, low)))
    return words


def _outline(pdf: Any) -> dict[int, list[Outlined]]:
    """Return the entries of the outline by page (from 0), in their order; a damaged outline gives those before it."""
    import pypdfium2

    entries: dict[int, list[Outlined]] = {}
    try:
        for bookmark in pdf.get_toc():
            target = bookmark.get_dest()
            title = " ".join(bookmark.get_title().split())
            index = target.get_index() if target else None
            if title and index is not None:
                entries.setdefault(index, []).append(Outlined(bookmark.level + 1, title))
    except (pypdfium2.PdfiumError, UnicodeError):
        pass
    return entries


def _blocks(read: Sequence[_Page], outline: dict[int, list[Outlined]]) -> Iterable[Heading | Paragraph]:
    pages = dehyphenated([page.lines for page in read])
    running = running_lines(pages)
    blocks: list[Heading | Paragraph] = []
    for index, lines in enumerate(pages):
        entries = outline.get(index, [])
        new = blocks_of_page(content_lines(lines, running), entries, index + 1, read[index].tables)
        before, after = (blocks[-1] if blocks else None), (new[0] if new else None)
        if _goes_on(before) and isinstance(before, Paragraph) and isinstance(after, Paragraph) and after.table is None:
            turn = (sum(map(len, before.text.split())), index + 1)  # a paragraph goes on on the next page
            blocks[-1] = Paragraph(f"{before.text} {after.text}", before.page, (*before.turns, turn))
            new = new[1:]
        blocks += new
    return blocks


def _goes_on(block: Heading | Paragraph | None) -> bool:
    return isinstance(block, Paragraph) and block.table is None and not ends_sentence(block.text)


_SCALE = 2.0  # pixels per point: 144 to the inch
_MOST_PIXELS = 4000  # of the longer side of a page
_LEAST = 0.5  # confidence of a line, from 0 to 1
_SAME_LINE = 0.5  # heights by which boxes of one line may stand apart


def recognized_lines(page: Any) -> list[str]:
    """Return the lines of a page (of pypdfium2) from top to bottom, as they are recognized in its picture.

    Raises:
        UserError: The packages of the extra `ocr` are missing.
    """
    engine = _engine()
    scale = min(_SCALE, _MOST_PIXELS / max(1.0, *page.get_size()))
    result = engine(page.render(scale=scale).to_numpy())
    if result.boxes is None:
        return []
    found = [
        (min(y for _, y in box), min(x for x, _ in box), max(y for _, y in box) - min(y for _, y in box), text)
        for box, text, score in zip(result.boxes, result.txts, result.scores, strict=True)
        if score >= _LEAST and text.strip()
    ]
    lines: list[list[tuple[float, str]]] = []
    last = 0.0
    for top, left, height, text in sorted(found):
        if not lines or top - last > _SAME_LINE * height:
            lines.append([])
            last = top
        lines[-1].append((left, text))
    return [" ".join(text for _, text in sorted(line)) for line in lines]


@functools.cache
def _engine() -> Any:
    with needing("ocr", "Recognizing scanned pages"):
        from rapidocr import EngineType, RapidOCR

        kinds = {f"{part}.engine_type": EngineType.OPENVINO for part in ("Det", "Cls", "Rec")}
        return RapidOCR(params={"Global.log_level": "error", "Global.use_cls": False, **kinds})
