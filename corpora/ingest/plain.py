"""Plain text as a document: paragraphs between blank lines, and form feeds as page breaks."""

from dataclasses import replace

from corpora.cut import split_paragraphs
from corpora.ingest.decoding import decode
from corpora.ingest.document import Document, Paragraph, make_document


def read_plain(data: bytes) -> Document:
    """Return the document in the bytes of a text file; it has pages if it contains form feeds.

    Raises:
        UserError: It is not text.
    """
    text, notes = decode(data)
    pages = text.split("\f")
    document = make_document(
        Paragraph(paragraph, number if len(pages) > 1 else None)
        for number, page in enumerate(pages, start=1)
        for paragraph in split_paragraphs(page)
        if paragraph.strip()
    )
    return replace(document, notes=notes)
