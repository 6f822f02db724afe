"""Which files of folders are documents, and the name of each in the corpus."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from corpora.ingest.formats import BY_SUFFIX
from signatures.common.errors import UserError


@dataclass(frozen=True)
class Found:
    """Documents, and files of a folder that are none.

    Args:
        sources: Name in the corpus -> path, in the order of names.
        left_out: Suffix -> number of files of a folder that cannot be read; "" for those without suffix.
    """

    sources: dict[str, Path]
    left_out: dict[str, int]


def find_documents(paths: Iterable[Path]) -> Found:
    """Return the documents among files and folders; hidden files and folders are left out, links are not followed.

    The name of a document in the corpus is its path below the folder that was given, or its file name; with several
    paths, the name of the folder is in front.

    Raises:
        UserError: A path does not exist, a file cannot be read, two documents have one name, or there is none.
    """
    given = list(paths)
    sources: dict[str, Path] = {}
    seen: set[Path] = set()
    left_out: Counter[str] = Counter()
    for path in given:
        for name, file in _files(path, several=len(given) > 1):
            if file.suffix.lower() not in BY_SUFFIX:
                if file == path:
                    raise UserError(f"{path}: files of this kind cannot be read. Use one of {', '.join(BY_SUFFIX)}.")
                left_out[file.suffix.lower()] += 1
            elif file.resolve() in seen:
                continue
            elif name in sources:
                raise UserError(f"{sources[name]} and {file} would both be named {name!r}: give the folder above both.")
            else:
                sources[name] = file
                seen.add(file.resolve())
    if not sources:
        where = ", ".join(map(str, given))
        raise UserError(f"{where}: there is no document. Suffixes that can be read: {', '.join(BY_SUFFIX)}.")
    return Found(dict(sorted(sources.items())), dict(left_out.most_common()))


def _files(path: Path, *, several: bool) -> Iterator[tuple[str, Path]]:
    """Yield name in the corpus and path of each file."""
    if path.is_file():
        yield path.name, path
        return
    if not path.is_dir():
        raise UserError(f"{path} is not a file or folder." if path.exists() else f"{path} does not exist.")
    front = f"{path.resolve().name}/" if several else ""
    for file in sorted(path.rglob("*")):
        inside = file.relative_to(path)
        if file.is_file() and not file.is_symlink() and not any(part.startswith(".") for part in inside.parts):
            yield front + inside.as_posix(), file
