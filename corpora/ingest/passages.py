"""A document becomes passages: below its headings, on as few pages as may be, with rows of tables whole."""

import bisect
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from corpora.cut import counted, cut_paragraphs, join_pieces, pieces
from corpora.ingest.document import LONGEST_NAME, Document, Paragraph, Section
from corpora.paragraphs import passage_id
from corpora.passages import SECTION_DIVIDER, PassageRecord
from signatures.common.files import utf8

OWN_KEYS = ("id", "title", "text", "sentences", "score", "source", "headings", "page", "last_page")
_LONGEST_KEYS = 4000  # characters as JSON; every passage repeats them


def document_passages(
    document: Document, source: str, *, words: int = 100, headings_in_title: bool = True, language: str = "en"
) -> Iterator[PassageRecord]:
    """Yield the passages of a document in order.

    Keys of a passage: `source`; `headings` above it, if any, outermost first; in formats with pages `page`, on which it
    begins, and `last_page` if it ends on another; and the keys of the document, unless they have one of these names or
    more than 4,000 characters. A passage ends with its page, unless a sentence continues on the next one. In the text
    of a passage each row of a table is a line, and the table's caption is a line in front of the first.

    Args:
        document: With a title, of which the first 1,000 characters count.
        source: Path of its file in the corpus, with `/`.
        words: Maximum per passage, at least 1.
        headings_in_title: The title is "document > innermost heading", which search engines and readers see; else it is
            the document's alone.
        language: Whose rules say where sentences end.
    """
    keys = {name: value for name, value in document.keys.items() if name not in OWN_KEYS}
    if len(json.dumps(keys)) > _LONGEST_KEYS:
        keys = {}
    keys, source = _valid(keys), _valid(source)
    named = document.title[:LONGEST_NAME].replace(SECTION_DIVIDER, " / ")  # else its first part would be the document
    for section in document.sections:
        inner = section.headings[-1] if headings_in_title and section.headings else ""
        title = _valid(SECTION_DIVIDER.join(part for part in (named, inner) if part))
        headings = {"headings": _valid(list(section.headings))} if section.headings else {}
        for sentences, text, pages in _cut(section, words, language):
            record: dict[str, Any] = {"id": passage_id(title, text), "title": title, "text": text}
            record |= {"sentences": sentences, "source": source, **headings, **pages, **keys}
            yield PassageRecord.model_validate(record)


def _valid(value: Any) -> Any:
    """Return a value with "?" for lone surrogates (names of files, escapes), which no file of passages may have."""
    if isinstance(value, str):
        return utf8(value)
    if isinstance(value, list):
        return [_valid(item) for item in value]
    if isinstance(value, dict):
        return {_valid(name): _valid(item) for name, item in value.items()}
    return value


class _Piece(NamedTuple):
    """A sentence, or part of one, or a row of a table."""

    text: str
    words: int
    first: int | None  # page on which it begins
    last: int | None  # page on which it ends
    table: str | None  # caption of the table whose row it is


_NO_CAPTION = _Piece("", 0, None, None, None)


@dataclass
class _Filling:
    """A passage that is being filled."""

    pieces: list[_Piece] = field(default_factory=list)
    words: int = 0

    def add(self, piece: _Piece, most: int) -> bool:
        """Add a piece, unless it is on another page or there is no room for it."""
        caption = _caption(self.pieces[-1] if self.pieces else None, piece, most) if piece.table else _NO_CAPTION
        if self.pieces:
            first, last = self.pieces[0].first, self.pieces[-1].last
            turns = piece.first != last or (piece.last != last and first != last)
            if turns or self.words + caption.words + piece.words > most:
                return False
        self.pieces += [caption, piece] if caption.text else [piece]
        self.words += caption.words + piece.words
        return True

    def passage(self) -> tuple[list[str], str, dict[str, int]]:
        """Return sentences, text and pages."""
        texts = [piece.text for piece in self.pieces]
        if all(piece.table is None for piece in self.pieces):
            return texts, join_pieces(texts), _pages(self.pieces)
        runs: list[tuple[bool, list[str]]] = []
        for piece in self.pieces:
            line = piece.table is not None
            if line or not runs or runs[-1][0]:
                runs.append((line, [piece.text]))
            else:
                runs[-1][1].append(piece.text)
        return texts, "\n".join(join_pieces(run) for _, run in runs), _pages(self.pieces)


def _caption(before: _Piece | None, piece: _Piece, most: int) -> _Piece:
    """Return the caption that goes in front of a row; one without text if that was told, or its table has none."""
    if not piece.table or (before is not None and before.table == piece.table):
        return _NO_CAPTION
    text = _short(piece.table, most)
    return piece._replace(text=text, words=len(text.split()))


def _short(caption: str, most: int) -> str:
    """Return a caption that leaves half of a passage to the row, or "" where that is too little for any."""
    return " ".join(caption.split()[: most // 2])


def _pages(found: list[_Piece]) -> dict[str, int]:
    first, last = found[0].first, found[-1].last
    if first is None or last is None:
        return {}
    return {"page": first} if first == last else {"page": first, "last_page": last}


def _cut(section: Section, words: int, language: str) -> Iterator[tuple[list[str], str, dict[str, int]]]:
    """Yield sentences, text and pages of each passage of a section."""
    if all(each.page is None and each.table is None for each in section.paragraphs):  # the same in less time
        texts = (utf8(each.text) for each in section.paragraphs)
        yield from ((*passage, {}) for passage in cut_paragraphs(texts, words, language))
        return
    filling = _Filling()
    for paragraph in section.paragraphs:
        for piece in _pieces(paragraph, words, language):
            if not filling.add(piece, words):
                yield filling.passage()
                filling = _Filling()
                filling.add(piece, words)
    if filling.pieces:
        yield filling.passage()


def _pieces(paragraph: Paragraph, words: int, language: str) -> Iterator[_Piece]:
    """Yield the pieces of a paragraph with their pages; a row is one piece, unless it is too long for a passage."""
    page, table = paragraph.page, paragraph.table
    text = utf8(paragraph.text)
    if table is not None:
        table = utf8(table)
        single, count = counted(text)
        room = words - len(_short(table, words).split())
        found: Iterable[tuple[str, int]] = [(single, count)] if count <= room else pieces(single, room, language)
    else:
        found = pieces(text, words, language)
    if not paragraph.turns:
        yield from (_Piece(piece, count, page, page, table) for piece, count in found)
        return
    starts, numbers = [0, *(turn for turn, _ in paragraph.turns)], [page, *(number for _, number in paragraph.turns)]
    done = 0
    for piece, count in found:
        begin, done = done, done + len("".join(piece.split()))
        first, last = (numbers[max(0, bisect.bisect_right(starts, place) - 1)] for place in (begin, done - 1))
        yield _Piece(piece, count, first, last, table)
