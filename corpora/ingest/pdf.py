"""PDF as a document: the text of its pages by PDFium, and the headings of its outline.

PDFium was chosen on five manuals whose text is known: as good as the best, many times faster, and permissively licensed
(`experiments/benchmarks/README.md`). It is not safe under threads; `workers.py` reads files in processes.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from corpora.ingest.document import Document, Heading, Paragraph, make_document
from corpora.ingest.pdf_lines import (
    Outlined,
    blocks_of_page,
    content_lines,
    dehyphenated,
    ends_sentence,
    running_lines,
)
from signatures.common.errors import UserError

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
