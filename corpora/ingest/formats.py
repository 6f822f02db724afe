"""The formats of documents, and how a file becomes a document."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from corpora.cut import split_paragraphs
from corpora.ingest.decoding import decode
from corpora.ingest.docling_reader import read_with_docling
from corpora.ingest.document import Document, Paragraph, make_document
from corpora.ingest.epub import read_epub
from corpora.ingest.failures import as_user_error
from corpora.ingest.html import read_html
from corpora.ingest.mail import read_mail
from corpora.ingest.markdown import read_markdown
from corpora.ingest.office import read_csv, read_docx, read_pptx, read_xlsx
from corpora.ingest.pdf import read_pdf
from signatures.common.errors import UserError, needing, unknown


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


def read_eml(data: bytes) -> Document:
    """Return the document in the bytes of a message, with its attachments; raises as `read_mail`."""
    return read_mail(data, _attachment)


def _attachment(name: str, data: bytes) -> Document | None:
    format_ = BY_SUFFIX.get(Path(name).suffix.lower())
    return format_.read(data) if format_ else None


@dataclass(frozen=True)
class Format:
    """A format of documents.

    Args:
        name: For people.
        suffixes: In lower case, with their dot.
        read: Makes a document of a file's bytes; raises UserError that begins with "it" or "its".
    """

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[bytes], Document]


FORMATS = (
    Format("Markdown", (".md", ".markdown"), read_markdown),
    Format("text", (".txt", ".text", ".rst"), read_plain),
    Format("HTML", (".html", ".htm", ".xhtml"), read_html),
    Format("PDF", (".pdf",), read_pdf),
    Format("DOCX", (".docx",), read_docx),
    Format("XLSX", (".xlsx", ".xlsm"), read_xlsx),
    Format("CSV", (".csv", ".tsv"), read_csv),
    Format("PPTX", (".pptx",), read_pptx),
    Format("EPUB", (".epub",), read_epub),
    Format("EML", (".eml",), read_eml),
)
BY_SUFFIX = {suffix: item for item in FORMATS for suffix in item.suffixes}


READERS = ("verihop", "docling")
_BY_DOCLING = ("PDF", "DOCX", "PPTX")  # the formats that lay out pages


@dataclass(frozen=True)
class ReadSettings:
    """How documents are read.

    Args:
        ocr: Recognize the text of scanned pages of PDF files.
        reader: "verihop", or "docling" for the layout of PDF, DOCX and PPTX files; it recognizes scanned pages itself.
    """

    ocr: bool = False
    reader: str = "verihop"

    def __post_init__(self) -> None:
        """Raise UserError if the reader is unknown, or a package is missing."""
        if self.reader not in READERS:
            raise unknown("reader", self.reader, READERS)
        for wanted, package, what in (
            (self.ocr, "rapidocr", "--ocr"),
            (self.reader == "docling", "docling", "--reader docling"),
        ):
            with needing(what.split()[-1].strip("-"), what):
                if wanted and importlib.util.find_spec(package) is None:
                    raise ModuleNotFoundError(f"No module named {package!r}")


def read_document(path: Path, settings: ReadSettings | None = None) -> Document:
    """Return the document in a file; its title is the file's name if the document states none.

    Raises:
        UserError: Another format, or a file that cannot be read; the message begins with the path.
    """
    format_ = BY_SUFFIX.get(path.suffix.lower())
    if format_ is None:
        raise UserError(f"{path}: files of this kind cannot be read. Use one of {', '.join(BY_SUFFIX)}.")
    try:
        with as_user_error():
            document = _read(format_, path, settings or ReadSettings())
    except UserError as error:
        raise UserError(f"{path}: {error}.") from error
    if not document.sections:
        raise UserError(f"{path}: it contains no text.")
    title = document.title or " ".join(path.stem.replace("_", " ").replace("-", " ").split())
    return replace(document, title=title)


def _read(format_: Format, path: Path, settings: ReadSettings) -> Document:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"it cannot be opened ({error.strerror})") from error
    if settings.reader == "docling" and format_.name in _BY_DOCLING:
        return read_with_docling(data, path.suffix.lower())
    return read_pdf(data, ocr=True) if settings.ocr and format_.read is read_pdf else format_.read(data)
