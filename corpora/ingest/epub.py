"""EPUB as a document: the chapters of the book in reading order, read as HTML."""

import posixpath
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from corpora.ingest.archive import open_archive
from corpora.ingest.document import Document, Heading, Paragraph, make_document
from corpora.ingest.failures import as_user_error
from corpora.ingest.html import html_blocks
from signatures.common.errors import UserError

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
_PAGES = ("application/xhtml+xml", "text/html")
_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")  # their encryption hides no text


def read_epub(data: bytes) -> Document:
    """Return the document in the bytes of an `.epub` file; keys are `author` and `language`, if stated.

    A chapter that cannot be read is left out and noted.

    Raises:
        UserError: It is no EPUB, is protected (DRM), decompresses to too much, or no chapter can be read.
    """
    with open_archive(data, "EPUB", ".epub") as archive:
        package = _package(archive)
        if _is_protected(archive):
            raise UserError("it is protected (DRM): use a copy without protection")
        root = _xml(archive, package)
        blocks, notes = _text(archive, list(_chapters(root, package)))
    stated = {name: " ".join((root.findtext(f".//{{*}}metadata/{{*}}{name}") or "").split()) for name in _STATED}
    keys = {_STATED[name]: value for name, value in stated.items() if value and name != "title"}
    return replace(make_document(blocks, stated["title"], keys), notes=tuple(notes))


_STATED = {"title": "title", "creator": "author", "language": "language"}  # of a book -> key of the document


def _xml(archive: zipfile.ZipFile, name: str) -> Any:
    """Return a part of the archive; no entity of it is expanded and nothing is fetched."""
    import lxml.etree

    parser = lxml.etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=True)
    try:
        root = lxml.etree.fromstring(archive.read(name), parser)
    except (KeyError, lxml.etree.LxmlError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise UserError(f"it is not an EPUB document, or damaged ({name} cannot be read)") from error
    if root is None:
        raise UserError(f"it is not an EPUB document, or damaged ({name} is empty)")
    return root


def _package(archive: zipfile.ZipFile) -> str:
    """Return the name of the file that lists the chapters."""
    found = _xml(archive, _CONTAINER).find(".//{*}rootfile")
    name = "" if found is None else found.get("full-path", "")
    if not name:
        raise UserError(f"it is not an EPUB document, or damaged ({_CONTAINER} lists no book)")
    return str(name)


def _is_protected(archive: zipfile.ZipFile) -> bool:
    if _ENCRYPTION not in archive.namelist():
        return False
    methods = [each.get("Algorithm", "") for each in _xml(archive, _ENCRYPTION).iter("{*}EncryptionMethod")]
    return any(method not in _FONTS for method in methods)


def _chapters(root: Any, package: str) -> Iterator[str]:
    """Yield the names of the chapters in the archive, in reading order, without the table of contents."""
    pages = {
        item.get("id"): item.get("href", "").partition("#")[0]
        for item in root.iterfind(".//{*}manifest/{*}item")
        if item.get("media-type") in _PAGES and "nav" not in item.get("properties", "").split()
    }
    seen: set[str] = set()
    for item in root.iterfind(".//{*}spine/{*}itemref"):
        name = pages.get(item.get("idref"))
        if name and name not in seen and item.get("linear") != "no":
            seen.add(name)
            yield posixpath.normpath(posixpath.join(posixpath.dirname(package), unquote(name)))


def _text(archive: zipfile.ZipFile, chapters: Sequence[str]) -> tuple[list[Heading | Paragraph], list[str]]:
    """Return the text of the chapters that can be read, and notes on the others."""
    blocks: list[Heading | Paragraph] = []
    notes: list[str] = []
    for name in chapters:
        try:
            with as_user_error("it is damaged"):
                data = archive.read(name)
                blocks += html_blocks(data) if data.strip() else []
        except UserError as error:
            notes.append(f"its chapter {name} was left out: {error}")
    if notes and len(notes) == len(chapters):
        raise UserError(f"none of its {len(chapters)} chapters can be read: {notes[0]}")
    return blocks, notes
