"""Zip archives of documents (Word, Excel, PowerPoint, EPUB), which are untrusted."""

import io
import zipfile
import zlib
from xml.parsers import expat

from corpora.compressed import check_size, size_limit
from signatures.common.errors import UserError

MOST_MARKUP = 64 << 20  # bytes of text with markup, as of ten thousand pages; reading them takes fifty times the memory
_OLE = b"\xd0\xcf\x11\xe0"  # begins older files, and those with a password
_BOOK = ".epub"  # its chapters may state that they are XHTML
_WITH_TYPE = (".svg", ".html", ".htm", ".xhtml")  # pictures and pages in office documents, which are not read
_FIRST = 4096  # bytes that are looked at first


def open_archive(data: bytes, kind: str, suffix: str, *, markup: int = MOST_MARKUP) -> zipfile.ZipFile:
    """Return the archive in the bytes of a document; nothing of it is unpacked to the disk.

    Args:
        data: The bytes.
        kind: Of the document, for people, as "Word".
        suffix: With its dot.
        markup: Bytes of XML that it may have when unpacked.

    Raises:
        UserError: It is not an archive, its content is larger than the limit of compressed files, or its markup than
            `markup`, or a part of an office document declares a document type, whose entities would become text.
    """
    if data.startswith(_OLE):
        old = f"an old {kind} file ({suffix[:-1]}) or" if suffix.endswith("x") else "no archive, or"
        raise UserError(f"it is {old} protected by a password: save it as {suffix} without a password")
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, NotImplementedError, OverflowError, ValueError) as error:
        raise UserError(f"it is not a valid {kind} document ({suffix})") from error
    parts = archive.infolist()
    check_size(sum(part.file_size for part in parts), size_limit(len(data)), "the document")
    size = sum(part.file_size for part in parts if part.filename.endswith((".xml", ".rels", ".xhtml", ".html", ".htm")))
    if size > markup:
        raise UserError(f"its text and markup have {size:,} bytes, more than {markup:,}: save it in several parts")
    if suffix != _BOOK:
        for part in parts:
            if not part.filename.lower().endswith(_WITH_TYPE) and _declares_type(archive, part):
                raise UserError(f"its part {part.filename} has a DOCTYPE, which is not valid in {kind}: save it again")
    return archive


class _Seen(Exception):
    """The DOCTYPE of a part (True), or its first element, which comes after it."""


def _declares_type(archive: zipfile.ZipFile, part: zipfile.ZipInfo) -> bool:
    """Return whether a part is XML with a DOCTYPE; what cannot be read is left to the reader of the document."""

    def see(doctype: bool) -> None:
        raise _Seen(doctype)

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = lambda *_: see(True)
    parser.StartElementHandler = lambda *_: see(False)
    size = _FIRST
    try:
        with archive.open(part) as stream:
            while data := stream.read(size):
                parser.Parse(data)
                size *= 2  # a comment in front is looked at again with each piece
    except _Seen as seen:
        return bool(seen.args[0])
    except (expat.ExpatError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError):
        return False
    return False
