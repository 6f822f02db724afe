"""Word documents: mammoth turns their styles into HTML; title and sizes come from the archive itself."""

import io
import zipfile
from dataclasses import replace
from xml.etree import ElementTree

from corpora.compressed import check_size, size_limit
from corpora.ingest.document import Document
from corpora.ingest.html import read_html
from signatures.common.errors import UserError

_CORE = "docProps/core.xml"
_MOST_XML = 64 << 20  # bytes of text with markup, as of ten thousand pages; reading them takes fifty times the memory
_TITLE = "{http://purl.org/dc/elements/1.1/}title"
# Below the title, which is a heading of the first level here.
_HEADINGS = [f"p[style-name='heading {level}'] => h{min(level + 1, 6)}:fresh" for level in range(1, 10)]
_STYLES = "\n".join(["p[style-name='Title'] => h1:fresh", "p[style-name='Subtitle'] => p:fresh", *_HEADINGS])


def read_docx(data: bytes) -> Document:
    """Return the document in the bytes of a `.docx` file; pictures are left out.

    Raises:
        UserError: It is no Word document, is protected by a password, or decompresses to too much.
    """
    import mammoth

    _check_archive(data)
    try:
        page = mammoth.convert_to_html(io.BytesIO(data), style_map=_STYLES, convert_image=_no_picture).value
    except MemoryError:
        raise
    except Exception as error:  # mammoth's own errors are those of whatever it tripped over
        raise UserError(f"it cannot be read as a Word document ({type(error).__name__}: {error})") from error
    document = read_html(f"<html><body><main>{page}</main></body></html>".encode("utf-8", "replace"))
    return replace(document, title=_stated_title(data) or document.title)


def _no_picture(image: object) -> list[object]:
    return []


def _check_archive(data: bytes) -> None:
    """Raise UserError unless the bytes are a zip archive of bearable size."""
    if data.startswith(b"\xd0\xcf\x11\xe0"):  # an OLE file
        raise UserError("it is an old Word file (.doc) or protected by a password: save it as .docx without one")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, OverflowError) as error:
        raise UserError("it is no Word document (.docx)") from error
    check_size(sum(part.file_size for part in parts), size_limit(len(data)), "the document")
    markup = sum(part.file_size for part in parts if part.filename.endswith((".xml", ".rels")))
    if markup > _MOST_XML:
        raise UserError(f"its text and markup have {markup:,} bytes, more than {_MOST_XML:,}: save it in several parts")


def _stated_title(data: bytes) -> str:
    """Return the title in the properties of the document, "" if there is none."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            found = ElementTree.fromstring(archive.read(_CORE)).findtext(_TITLE)
    except Exception:  # noqa: BLE001 - a title that cannot be read is none, whatever is wrong with it
        return ""
    return " ".join((found or "").split())
