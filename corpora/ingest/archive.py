"""Zip archives of documents (Word, Excel, PowerPoint, EPUB), which are untrusted."""

import io
import zipfile

from corpora.compressed import check_size, size_limit
from signatures.common.errors import UserError

MOST_MARKUP = 64 << 20  # bytes of text with markup, as of ten thousand pages; reading them takes fifty times the memory
_OLE = b"\xd0\xcf\x11\xe0"  # begins older files, and those with a password


def open_archive(data: bytes, kind: str, suffix: str, *, markup: int = MOST_MARKUP) -> zipfile.ZipFile:
    """Return the archive in the bytes of a document; nothing of it is unpacked to the disk.

    Args:
        data: The bytes.
        kind: Of the document, for people, as "Word".
        suffix: With its dot.
        markup: Bytes of XML that it may have when unpacked.

    Raises:
        UserError: It is none, or its content is larger than the limit of compressed files, or its markup than `markup`.
    """
    if data.startswith(_OLE):
        old = f"an old {kind} file ({suffix[:-1]}) or" if suffix.endswith("x") else "no archive, or"
        raise UserError(f"it is {old} protected by a password: save it as {suffix} without one")
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, NotImplementedError, OverflowError, ValueError) as error:
        raise UserError(f"it is no {kind} document ({suffix})") from error
    parts = archive.infolist()
    check_size(sum(part.file_size for part in parts), size_limit(len(data)), "the document")
    size = sum(part.file_size for part in parts if part.filename.endswith((".xml", ".rels", ".xhtml", ".html", ".htm")))
    if size > markup:
        raise UserError(f"its text and markup have {size:,} bytes, more than {markup:,}: save it in several parts")
    return archive
