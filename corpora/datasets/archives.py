"""HotpotQA's Wikipedia as published: a `.tar.bz2` of `wiki_*.bz2` files of JSON lines, or the unpacked folder."""

import math
import tarfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import IO, Any

from corpora.compressed import check_size, lines_of, reading, size_limit, unpacked
from corpora.jsonl import parse_objects
from signatures.common.errors import UserError

_PART = "wiki_*.bz2"
_LONGEST_HEADER = (
    1 << 20
)  # bytes of a member; tarfile reads those of the extended formats into memory, whatever they say


class _Content:
    """What tarfile reads from: content that comes in chunks.

    Attributes:
        most: Bytes that may be read so far.
    """

    def __init__(self, chunks: Iterator[bytes]):
        self._chunks, self._rest, self._done = chunks, b"", 0
        self.most: float = _LONGEST_HEADER

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`; none at the end."""
        self._rest = self._rest or next(self._chunks, b"")
        part, self._rest = self._rest[:size], self._rest[size:]
        self._done += len(part)
        if self._done > self.most:
            raise tarfile.ReadError(f"a header of more than {_LONGEST_HEADER:,} bytes")
        return part


def is_archive(path: str) -> bool:
    """Return whether `path` has the name of a tar file, or is a folder with `wiki_*.bz2` files."""
    file = Path(path)
    if file.is_dir():
        return next(file.rglob(_PART), None) is not None
    return ".tar" in file.suffixes[-2:] or file.suffix == ".tgz"


def read_archive(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield `(location, record)` of all parts, those of a tar file in its order; one line is in memory at a time.

    Raises:
        UserError: The archive is damaged, a line is not a JSON object, or there is no `wiki_*.bz2` in it.
    """
    empty = True
    for name, file, size in _folder(Path(path)) if Path(path).is_dir() else _tar(Path(path)):
        empty = False
        for line, value in parse_objects(lines_of(unpacked(file, ".bz2", name, size), name), name):
            yield f"{name}, line {line}", value
    if empty:
        raise UserError(f"{path!r} contains no {_PART}. Unpack it and name the file inside.")


def _folder(folder: Path) -> Iterator[tuple[str, IO[bytes], int]]:
    """Yield name, content and size of each part."""
    for part in sorted(folder.rglob(_PART)):
        with reading(part), part.open("rb") as file:
            yield str(part), file, part.stat().st_size


def _tar(path: Path) -> Iterator[tuple[str, IO[bytes], int]]:
    """Yield name, content and size of each part."""
    size = path.stat().st_size
    limit, suffix = size_limit(size), ".gz" if path.suffix == ".tgz" else path.suffix
    with reading(path), path.open("rb") as packed:
        source = _Content(unpacked(packed, suffix, path, size))
        archive = tarfile.open(fileobj=source, mode="r|")  # type: ignore[call-overload]  # noqa: SIM115 - nothing to close
        while (member := archive.next()) is not None:
            source.most = math.inf
            check_size(member.offset_data + member.size, limit, path)  # what is skipped is decompressed, too
            file = archive.extractfile(member) if fnmatch(Path(member.name).name, _PART) else None
            if file is not None:
                yield f"{path}: {member.name}", file, member.size
            source.most = archive.offset + _LONGEST_HEADER
            archive.members.clear()  # it would keep all headers in memory
