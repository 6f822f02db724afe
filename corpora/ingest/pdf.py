"""PDF as a document: the text of its pages by PDFium, and the headings of its outline.

PDFium was chosen on five manuals whose text is known: as good as the best, many times faster, and permissively licensed
(`experiments/benchmarks/README.md`). It is not safe under threads; `ingest.py` reads files in processes.
"""

import bisect
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from corpora.ingest.document import LONGEST_NAME, Document, Heading, Paragraph, make_document
from signatures.common.errors import UserError

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


def blocks_of_page(lines: Sequence[str], outline: Sequence[Outlined], page: int) -> list[Heading | Paragraph]:
    """Return headings and paragraphs of a page.

    Args:
        lines: Those of the page, in reading order, none blank.
        outline: Entries that lead to this page. One whose title is not found among the lines comes before them.
        page: Number of the page, from 1.
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
        blocks += (Paragraph(text, page) for text in _paragraphs(lines[done:first], full))
        blocks.append(Heading(entry.level, entry.title))
        done = last
    blocks += (Paragraph(text, page) for text in _paragraphs(lines[done:], full))
    return blocks


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
_EMPTY = 0.2  # of the pages: more without text are not only covers and backs
_PASSWORD = 4  # FPDF_ERR_PASSWORD


def read_pdf(data: bytes) -> Document:
    """Return the document in the bytes of a PDF file; its paragraphs have pages, counted from 1.

    Running headers and footers and tables of contents with leaders are left out, words divided at the end of a line are
    joined, and the entries of the outline become headings where their page has them.

    Raises:
        UserError: It is no PDF, is protected by a password, or has pages but no text.
    """
    import pypdfium2

    try:
        with pypdfium2.PdfDocument(data) as pdf:
            texts = [_page_text(page) for page in pdf]
            outline = _outline(pdf)
            stated = _title(pdf)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD or "password" in str(error).lower():
            raise UserError("it is protected by a password: save it without one") from error
        raise UserError(f"it cannot be read as PDF ({error})") from error
    if texts and not any(text.strip() for text in texts):
        raise UserError("its pages have no text: recognise it first (OCR), for example with ocrmypdf")
    document = make_document(_blocks(texts, outline), "" if stated.lower().endswith(_FILE_NAMES) else stated)
    empty = sum(not text.strip() for text in texts)
    scanned = f"{empty} of its {len(texts)} pages have no text: scanned ones need OCR"
    return replace(document, notes=(scanned,) if empty > _EMPTY * len(texts) else ())


def _title(pdf: Any) -> str:
    try:
        return " ".join(pdf.get_metadata_value("Title").split())
    except UnicodeError:
        return ""


def _page_text(page: Any) -> str:
    text = page.get_textpage()
    try:
        found: str = text.get_text_range()
    finally:
        text.close()
        page.close()
    return found.replace("\0", "")


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


def _blocks(texts: list[str], outline: dict[int, list[Outlined]]) -> Iterable[Heading | Paragraph]:
    pages = dehyphenated([text.splitlines() for text in texts])
    running = running_lines(pages)
    blocks: list[Heading | Paragraph] = []
    for index, lines in enumerate(pages):
        new = blocks_of_page(content_lines(lines, running), outline.get(index, []), index + 1)
        before = blocks[-1] if blocks else None
        if isinstance(before, Paragraph) and new and isinstance(new[0], Paragraph) and not ends_sentence(before.text):
            turn = (sum(map(len, before.text.split())), index + 1)  # a paragraph goes on on the next page
            blocks[-1] = Paragraph(f"{before.text} {new[0].text}", before.page, (*before.turns, turn))
            new = new[1:]
        blocks += new
    return blocks
