"""What every reader returns: a document as sections, each with its headings, paragraphs and pages."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

LONGEST_NAME = 1000  # characters of a title or heading, which every passage below it repeats


@dataclass(frozen=True)
class Heading:
    """A heading in the flow of a document.

    Args:
        level: 1 for the outermost; only the order of levels matters.
        text: On one line, not blank.
    """

    level: int
    text: str


@dataclass(frozen=True)
class Paragraph:
    """A paragraph, item of a list, row of a table or line of code, in the flow of a document.

    Args:
        text: Not blank.
        page: Number of the page on which it begins, from 1; None if the format has no pages.
        turns: Where further pages begin: characters before it, without white space, and its number.
        table: Caption of the table whose row it is, "" if that has none; None if it is not a row.
    """

    text: str
    page: int | None = None
    turns: tuple[tuple[int, int], ...] = ()
    table: str | None = None


@dataclass(frozen=True)
class Section:
    """The paragraphs between two headings.

    Args:
        headings: Those above it, outermost first; empty in front of the first heading.
        paragraphs: At least one.
    """

    headings: tuple[str, ...]
    paragraphs: tuple[Paragraph, ...]


@dataclass(frozen=True)
class Document:
    """The text of one file.

    Args:
        title: From the file; "" if it states none.
        sections: Those with text, in order; none if the file has no text.
        keys: What else the file says of itself, e.g. `url`; values are JSON.
        notes: What the reader had to guess or leave out, for people; each goes on after "it" or "its".
    """

    title: str
    sections: tuple[Section, ...]
    keys: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def make_document(
    blocks: Iterable[Heading | Paragraph], title: str = "", keys: Mapping[str, Any] | None = None
) -> Document:
    """Gather headings and paragraphs into sections.

    A first heading that precedes all text, and is above all other headings, is the title of the document, or
    repeats the `title` that is given; if it says something else, it is a heading like others. A heading with nothing
    below it is a section of its own words, and one of more than 1,000 characters a paragraph.
    """
    flow = [
        Paragraph(block.text) if isinstance(block, Heading) and len(block.text) > LONGEST_NAME else block
        for block in blocks
    ]
    headings = [block for block in flow if isinstance(block, Heading)]
    top = next(iter(flow), None)
    alone = isinstance(top, Heading) and all(other.level > top.level for other in headings[1:])
    if isinstance(top, Heading) and alone and (not title or top.text.casefold() in title.casefold()):
        title = title or top.text
        flow = flow[1:]
    sections: list[Section] = []
    above: list[Heading] = []
    paragraphs: list[Paragraph] = []
    bare = False  # whether the last heading has nothing below it so far

    def close(level: int) -> None:
        if bare and above[-1].level >= level:
            paragraphs.append(Paragraph(above[-1].text))
        if paragraphs:
            sections.append(Section(tuple(heading.text for heading in above), tuple(paragraphs)))
            paragraphs.clear()

    for block in flow:
        if isinstance(block, Paragraph):
            paragraphs.append(block)
            bare = False
            continue
        close(block.level)
        while above and above[-1].level >= block.level:
            above.pop()
        above.append(block)
        bare = True
    close(0)
    return Document(title, tuple(sections), keys or {})


def nested(document: Document, level: int) -> Iterator[Heading | Paragraph]:
    """Yield a document as headings and paragraphs of another, below a heading of `level` with its title, if any."""
    if document.title:
        yield Heading(level, document.title[:LONGEST_NAME])
    for section in document.sections:
        yield from (Heading(level + depth, text) for depth, text in enumerate(section.headings, start=1))
        yield from section.paragraphs
