"""The sources of a reply: pages that an engine with a search of its own names beside its text.

A program listens for them while it asks; the LM tells them whether it was asked or the cache answered. Prompts,
predictions of predictors and demonstrations never contain them. They are untrusted text.
"""

import contextlib
import contextvars
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypedDict
from urllib.parse import urlsplit

from programs.parts.passages import deduplicate
from signatures.citation_marks import find_marks
from signatures.types import Passage


class Source(TypedDict):
    """A source as an engine states it; each text may be empty, and none is checked."""

    url: str
    title: str
    text: str


MOST_SOURCES = 200
_LONGEST_URL, _LONGEST_TITLE, _LONGEST_TEXT = 2000, 300, 10_000  # characters
_NO_URL = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff<>\"`\\]|[\u200b-\u200f\u202a-\u202e\u2066-\u2069]")

_heard: contextvars.ContextVar[list[Source] | None] = contextvars.ContextVar("verihop_sources", default=None)


@contextlib.contextmanager
def sources_heard() -> Iterator[list[Source]]:
    """Yield a list to which the replies in the block add their sources, in the order in which marks count them."""
    heard: list[Source] = []
    token = _heard.set(heard)
    try:
        yield heard
    finally:
        _heard.reset(token)


def tell_sources(read: Callable[[], Sequence[Source]]) -> None:
    """Add the sources of a reply, which are read only if a program listens."""
    heard = _heard.get()
    if heard is not None:
        heard += read()


def with_sources(response: str, sources: Sequence[Source]) -> tuple[str, list[Passage], list[str]]:
    """Return a response, the pages it was written from as passages, and the ids of those that it cites.

    The id of a passage is its URL. Sources that are no web address are left out, and repeats of one. Marks of the
    response become positions in the passages; numbers without one are left out. A response without a mark cites all.

    Args:
        response: The text of an engine, whose marks are positions in `sources`.
        sources: What the engine named.
    """
    pages = [_page(source) for source in sources[:MOST_SOURCES]]
    passages = deduplicate(page for page in pages if page is not None)
    positions = {passage.id: position for position, passage in enumerate(passages, start=1)}
    cited: list[str] = []

    def position_of(mark: int) -> int | None:
        page = pages[mark - 1] if 1 <= mark <= len(pages) else None
        if page is None:
            return None
        cited.append(page.id)
        return positions[page.id]

    text = select_citations(response, position_of)
    return text, passages, list(dict.fromkeys(cited)) or list(positions)


def _page(source: Source) -> Passage | None:
    """Return a source as a passage; None if its URL is not that of a web page."""
    url = source["url"].strip()
    try:
        parts = urlsplit(url)
    except ValueError:  # brackets that are none
        return None
    if len(url) > _LONGEST_URL or parts.scheme not in ("http", "https") or not parts.netloc or _NO_URL.search(url):
        return None
    title = " ".join(source["title"].split())[:_LONGEST_TITLE]
    return Passage(id=url, title=title, text=source["text"].strip()[:_LONGEST_TEXT])


def select_citations(text: str, number_of: Callable[[int], int | None]) -> str:
    """Return `text` with every number n in its marks replaced by `number_of(n)`, without those for which it is None.

    A mark without any number left is removed with the blanks in front of it.
    """
    parts: list[str] = [""]
    end, removed = 0, False
    for mark in find_marks(text):
        numbers = dict.fromkeys(str(number) for each in mark.numbers if (number := number_of(each)) is not None)
        if mark.start > end:
            parts[-1] = parts[-1].rstrip(" \t") if removed else parts[-1]
            parts.append(text[end : mark.start])
        if numbers:
            written = text[mark.start : mark.end]
            brackets = 2 if written.startswith("[[") else 1
            parts.append(f"{written[:brackets]}{', '.join(numbers)}{written[-brackets:]}")
        end, removed = mark.end, not numbers
    parts[-1] = parts[-1].rstrip(" \t") if removed else parts[-1]
    return "".join([*parts, text[end:]])
