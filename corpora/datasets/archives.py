"""HotpotQA's Wikipedia as it is published: a `.tar.bz2` of `wiki_*.bz2` files of JSON lines, or its folder."""

import tarfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import IO, Any

from corpora.compressed import lines_of, readable, unpacked
from corpora.jsonl import parse_objects
from signatures.common.errors import UserError

_PART = "wiki_*.bz2"


def is_archive(path: str) -> bool:
    """Say whether `path` is a tar file by its name, or a folder that holds `wiki_*.bz2` files."""
    place = Path(path)
    if place.is_dir():
        return next(place.rglob(_PART), None) is not None
    return ".tar" in place.suffixes[-2:] or place.suffix == ".tgz"


def read_archive(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield `(where, record)` of all parts, those of a tar file in its order; one line is held at a time.

    Raises:
        UserError: The archive is damaged, a line is no JSON object, or there is no `wiki_*.bz2` in it.
    """
    found = False
    for name, file in _folder(Path(path)) if Path(path).is_dir() else _tar(Path(path)):
        found = True
        for line, value in parse_objects(lines_of(unpacked(file, ".bz2")), name):
            yield f"{name}, line {line}", value
    if not found:
        raise UserError(f"{path!r} holds no {_PART}. Unpack it and name the file inside.")


def _folder(folder: Path) -> Iterator[tuple[str, IO[bytes]]]:
    for part in sorted(folder.rglob(_PART)):
        with readable(part), part.open("rb") as file:
            yield str(part), file


def _tar(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with readable(path), tarfile.open(path, "r|*") as archive:
        while (member := archive.next()) is not None:
            file = archive.extractfile(member) if fnmatch(Path(member.name).name, _PART) else None
            if file is not None:
                yield f"{path}: {member.name}", file
            archive.members.clear()  # type: ignore[attr-defined]  # it would keep all headers, which nobody reads again
