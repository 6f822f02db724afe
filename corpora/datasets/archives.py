"""HotpotQA's Wikipedia as published: a `.tar.bz2` of `wiki_*.bz2` files of JSON lines, or the unpacked folder."""

import tarfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import IO, Any

from corpora.compressed import check_size, lines_of, reading, size_limit, unpacked
from corpora.jsonl import parse_objects
from signatures.common.errors import UserError

_PART = "wiki_*.bz2"


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
    with reading(path), tarfile.open(path, "r|*") as archive:
        limit = size_limit(path.stat().st_size)
        while (member := archive.next()) is not None:
            check_size(member.offset_data + member.size, limit, path)  # what is skipped is decompressed, too
            file = archive.extractfile(member) if fnmatch(Path(member.name).name, _PART) else None
            if file is not None:
                yield f"{path}: {member.name}", file, member.size
            archive.members.clear()  # type: ignore[attr-defined]  # it would keep all headers in memory
