"""A document as passages: cut at sentence ends, never across headings; each knows its file, headings and page."""

import bisect
import json
from collections.abc import Iterator
from typing import Any

from corpora.cut import cut_text
from corpora.ingest.document import LONGEST_NAME, Document, Section
from corpora.paragraphs import passage_id
from corpora.passages import SECTION_DIVIDER, PassageRecord
from corpora.retrievers.store import utf8

OWN_KEYS = ("id", "title", "text", "sentences", "score", "source", "headings", "page", "last_page")
_LONGEST_KEYS = 4000  # characters as JSON; every passage repeats them


def document_passages(
    document: Document, source: str, *, words: int = 100, headings_in_title: bool = True
) -> Iterator[PassageRecord]:
    """Yield the passages of a document in order.

    Keys of a passage: `source`; `headings` above it, if any, outermost first; in formats with pages `page`, on which it
    begins, and `last_page` if it ends on another; and the keys of the document, unless they have one of these names or
    more than 4,000 characters.

    Args:
        document: With a title, of which the first 1,000 characters count.
        source: Path of its file in the corpus, with `/`.
        words: Maximum per passage, at least 1.
        headings_in_title: The title is "document > innermost heading", which search engines and readers see; else it is
            the document's alone.
    """
    keys = {name: value for name, value in document.keys.items() if name not in OWN_KEYS}
    if len(json.dumps(keys)) > _LONGEST_KEYS:
        keys = {}
    named = document.title[:LONGEST_NAME].replace(SECTION_DIVIDER, " / ")  # else its first part would be the document
    for section in document.sections:
        inner = section.headings[-1] if headings_in_title and section.headings else ""
        title = SECTION_DIVIDER.join(part for part in (named, inner) if part)
        headings = {"headings": list(section.headings)} if section.headings else {}
        for sentences, text, pages in _cut(section, words):
            record: dict[str, Any] = {"id": passage_id(_valid(title), _valid(text)), "title": title, "text": text}
            record |= {"sentences": sentences, "source": source, **headings, **pages, **keys}
            yield PassageRecord.model_validate(_valid(record))


def _valid(value: Any) -> Any:
    """Return a value with "?" for lone surrogates (names of files, escapes), which no file of passages may have."""
    if isinstance(value, str):
        return utf8(value)
    if isinstance(value, list):
        return [_valid(item) for item in value]
    if isinstance(value, dict):
        return {_valid(name): _valid(item) for name, item in value.items()}
    return value


def _cut(section: Section, words: int) -> Iterator[tuple[list[str], str, dict[str, int]]]:
    """Yield sentences, text and pages of each passage of a section."""
    text = "\n\n".join(paragraph.text for paragraph in section.paragraphs)
    starts: list[int] = []
    numbers: list[int] = []
    end = 0
    for paragraph in section.paragraphs:
        if paragraph.page is not None:
            starts += [end, *(end + turn for turn, _ in paragraph.turns)]
            numbers += [paragraph.page, *(page for _, page in paragraph.turns)]
        end += _size(paragraph.text)
    done = 0
    for sentences, joined in cut_text(text, words):
        first, done = done, done + _size(joined)
        yield sentences, joined, _pages(starts, numbers, first, done - 1)


def _pages(starts: list[int], numbers: list[int], first: int, last: int) -> dict[str, int]:
    """Return the pages of characters `first` to `last`, counted without white space."""
    if not starts:
        return {}
    page, last_page = (numbers[max(0, bisect.bisect_right(starts, place) - 1)] for place in (first, last))
    return {"page": page} if page == last_page else {"page": page, "last_page": last_page}


def _size(text: str) -> int:
    return sum(map(len, text.split()))
