"""The formats that can be read, by suffix, and the reading of one file."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from corpora.ingest.document import Document
from corpora.ingest.docx import read_docx
from corpora.ingest.html import read_html
from corpora.ingest.markdown import read_markdown
from corpora.ingest.pdf import read_pdf
from corpora.ingest.plain import read_plain
from signatures.common.errors import UserError, one_line


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
)
BY_SUFFIX = {suffix: item for item in FORMATS for suffix in item.suffixes}


def read_document(path: Path) -> Document:
    """Return the document in a file; its title is the file's name if the document states none.

    Raises:
        UserError: Another format, or a file that cannot be read; the message begins with the path.
    """
    format_ = BY_SUFFIX.get(path.suffix.lower())
    if format_ is None:
        raise UserError(f"{path}: files of this kind cannot be read. Use one of {', '.join(BY_SUFFIX)}.")
    try:
        document = format_.read(path.read_bytes())
    except UserError as error:
        raise UserError(f"{path}: {error}.") from error
    except OSError as error:
        raise UserError(f"{path}: it cannot be opened ({error.strerror}).") from error
    except MemoryError:
        raise
    except Exception as error:  # libraries meet hostile files with errors of all kinds
        raise UserError(f"{path}: it cannot be read ({type(error).__name__}: {one_line(error, 100)}).") from error
    if not document.sections:
        raise UserError(f"{path}: it contains no text.")
    title = document.title or " ".join(path.stem.replace("_", " ").replace("-", " ").split())
    return replace(document, title=title)
