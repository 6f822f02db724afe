"""The files of an index folder: `index.json`, those listed in it, those of a build in progress, and `files.json`."""

import contextlib
import hashlib
import json
import shutil
from collections.abc import Collection, Container, Iterator
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from corpora.index.info import CONTENT, PARTS, SCHEMAS, FileInfo, IndexInfo, Request, canonical, has_vectors
from corpora.passages import corpus_hash, read_passages
from corpora.retrievers.dense import CODE_FILES, VECTORS_FILE
from corpora.retrievers.graph import FILES as GRAPH_FILES
from corpora.retrievers.store import (
    IDS_FILE,
    KEYS_FILE,
    KEYS_OFFSETS_FILE,
    OFFSETS_FILE,
    TEXT_FILE,
    content_hash,
    stored,
)
from corpora.retrievers.triples import FILES as FACT_FILES
from signatures.common.errors import UserError, first_problem
from signatures.common.files import atomic_write, sha256_text
from signatures.common.strict_json import parse_strict_json, read_limited
from signatures.common.work import difference, locked_folder

INFO_FILE, STATE_FILE, LOCK_FILE = "index.json", "build.json", "build.lock"
FILES_FILE = "files.json"  # of an index that was pushed: size and SHA-256 of each file (`corpora.index.transfer`)
REBUILD = ".rebuild"  # subfolder of an index that is being replaced
DATABASE = ".database"  # subfolder of an index: files of tables with its vectors (`corpora.index.database`)
DOCUMENTS = ".documents"  # subfolder of an index of documents: what was read of them (`corpora.sync`)
_KEYS = frozenset({KEYS_FILE, KEYS_OFFSETS_FILE})  # both, or none if no passage has other keys
_PASSAGES = (TEXT_FILE, OFFSETS_FILE, IDS_FILE, *sorted(_KEYS))
_PARTS = ("bm25", "bm25s", "dense", "graph")
OWN = (FILES_FILE, INFO_FILE, STATE_FILE, LOCK_FILE, *_PASSAGES, *_PARTS)
_LARGE, _BLOCK, _BLOCKS = 4 << 20, 4096, 64  # bytes; of larger files, the size and number of the blocks hashed


def file_digest(path: Path) -> str:
    """Return the SHA-256 of size and content; of files above 4 MiB, of the size and 64 evenly spaced blocks.

    It detects truncated, exchanged and rebuilt files of any size in milliseconds, but not a single flipped bit.
    """
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with open(path, "rb") as file:
        if size <= _LARGE:
            digest.update(file.read())
        else:
            for block in range(_BLOCKS):
                file.seek((size - _BLOCK) * block // (_BLOCKS - 1))
                digest.update(file.read(_BLOCK))
    return digest.hexdigest()


def list_files(folder: Path) -> dict[str, FileInfo]:
    """Return size and digest of all index files under `folder`."""
    skipped = {FILES_FILE, INFO_FILE, STATE_FILE, LOCK_FILE}
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.endswith((".tmp", ".lock")))
    return {
        path.relative_to(folder).as_posix(): FileInfo(bytes=path.stat().st_size, digest=file_digest(path))
        for path in paths
        if path.name not in skipped and path.relative_to(folder).parts[0] in OWN
    }


def _check_parts(info: IndexInfo) -> None:
    """Raise ValueError unless the manifest lists the files of all its parts, each inside the folder."""
    if info.retriever not in PARTS:
        raise ValueError(f"unknown retriever {info.retriever[:60]!r}")
    for name in info.files:
        path = PurePosixPath(name)
        if "\0" in name or path.is_absolute() or ".." in path.parts or path.parts[:1] not in [(own,) for own in OWN]:
            raise ValueError(f"{name[:60]!r} is not a file of an index")
    needed = {TEXT_FILE, OFFSETS_FILE} | (_KEYS if _KEYS & info.files.keys() else set())
    if has_vectors(info.retriever):
        needed.add(f"dense/{VECTORS_FILE}")
        needed |= {f"dense/{file}" for file in CODE_FILES[info.dense_kind or "flat"]}
    if "graph" in PARTS[info.retriever]:
        needed |= {f"graph/{file}" for file in (*GRAPH_FILES, *(FACT_FILES if info.triples else ()))}
    needed |= {
        name for name in ("bm25/meta.json", "bm25s/params.index.json") if name.split("/")[0] in PARTS[info.retriever]
    }
    if missing := sorted(needed - info.files.keys()):
        raise ValueError(f"it does not list {missing[0]}")


def read_info(folder: Path) -> IndexInfo:
    """Return the checked `index.json` of `folder`.

    Raises:
        UserError: There is no finished index, it has another schema, or a file is missing or changed.
    """
    path = folder / INFO_FILE
    if not path.is_file():
        if (folder / DOCUMENTS).is_dir():
            raise UserError(f"{folder} contains no finished index of documents: run the same `verihop sync` again.")
        if (folder / STATE_FILE).is_file():
            raise UserError(f"{folder} contains an unfinished index: build it again with resume.")
        if (folder / REBUILD).is_dir():
            raise UserError(f"{folder} contains an unfinished index: run the command that was interrupted again.")
        raise UserError(f"{folder} contains no index: build one there, with `verihop sync` or `index`.")
    try:
        content = read_limited(path)
    except ValueError as error:
        if isinstance(error.__cause__, OSError):  # such as too many open files: it may be as it was written
            cure = "fix its permissions" if isinstance(error.__cause__, PermissionError) else "try again"
            raise UserError(f"{path} cannot be read ({error}): {cure}.") from error
        raise UserError(f"{path} cannot be parsed ({error}): rebuild the index.") from error
    info = parse_info(content, path)
    check_files(folder, info)
    return info


def parse_info(raw: bytes, name: Path | str) -> IndexInfo:
    """Return the content of an `index.json`, whose files are not checked.

    Raises:
        UserError: It has another schema, was changed, or lists what no index has.
    """
    try:
        content = parse_strict_json(raw)
        version = content.get("schema_version") if isinstance(content, dict) else None
        if version not in SCHEMAS:
            cure = "rebuild the index, or use the verihop that wrote it"
            raise UserError(f"{name} has schema version {version!r:.20}, not {' or '.join(map(str, SCHEMAS))}: {cure}.")
        digest = content.pop("digest", None)
        if digest != sha256_text(canonical(content)):
            raise UserError(f"{name} has changed since it was written: rebuild the index with overwrite.")
        info = IndexInfo.model_validate(content)
        _check_parts(info)
    except (ValidationError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        reason = first_problem(error) if isinstance(error, ValidationError) else str(error)
        raise UserError(f"{name} cannot be parsed ({reason}): rebuild the index.") from error
    return info


def check_files(folder: Path, info: IndexInfo) -> None:
    """Raise UserError if a file of the index is missing or changed."""
    for name, expected in info.files.items():
        file = folder / name
        if not file.is_file() or file.stat().st_size != expected.bytes or file_digest(file) != expected.digest:
            raise UserError(f"{file} is missing or not the file that was indexed: rebuild the index with overwrite.")


def write_info(folder: Path, info: IndexInfo) -> None:
    """Write `index.json`, the last step of a build."""
    with atomic_write(folder / INFO_FILE) as file:
        absent = {name for name in ("update", "triples") if getattr(info, name) is None}
        content = info.model_dump(mode="json", exclude=absent)
        content["digest"] = sha256_text(canonical(content))
        file.write(json.dumps(content, indent=1, sort_keys=True) + "\n")
    (folder / STATE_FILE).unlink(missing_ok=True)


def prepare(folder: Path, request: Request, *, resume: bool, overwrite: bool) -> bool:
    """Prepare `folder` for a build; return False if the requested index is already complete.

    Raises:
        UserError: The folder contains something that may not be changed; the message says what to do.
    """
    complete, started = (folder / INFO_FILE).is_file(), (folder / STATE_FILE).is_file()
    if overwrite and (complete or started):
        with atomic_write(folder / STATE_FILE) as file:
            file.write("{}\n")  # after a kill during the deletion, the folder is known as ours and cannot be resumed
        clear(folder)
    elif complete:
        if not resume:
            raise UserError(
                f"{folder} already contains an index: add passages to it (--add), replace it (--overwrite), or choose "
                "another folder."
            )
        _require_same(folder, read_info(folder), request)
        return False
    elif started:
        if not resume:
            raise UserError(
                f"{folder} contains an unfinished index: continue it (--resume), or start over (--overwrite)."
            )
        _require_same(folder, read_state(folder), request)
    else:
        refuse_foreign(folder)
    with atomic_write(folder / STATE_FILE) as file:
        file.write(canonical(request.model_dump()) + "\n")
    return True


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of a killed build; the caller must have the lock of `folder`."""
    for name in (*OWN, REBUILD):
        for leftover in (folder / name).rglob(".*.tmp"):
            leftover.unlink(missing_ok=True)


def refuse_foreign(folder: Path) -> None:
    """Raise UserError if `folder` is a file, or contains files but no index, complete or unfinished."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file: choose a folder for the index.")
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if names - {LOCK_FILE, DOCUMENTS, DATABASE} and not names & {INFO_FILE, STATE_FILE, REBUILD}:
        raise UserError(f"{folder} is not empty and contains no index: choose an empty or new folder.")


def clear(folder: Path) -> None:
    """Delete the files of an index and nothing else.

    `index.json` is deleted first, so that a partial index never opens, and the build state last, so that what a kill
    leaves is still known as an index.
    """
    for name in [*(name for name in OWN if name not in (STATE_FILE, LOCK_FILE)), STATE_FILE]:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Lock `folder` against builds by other processes.

    Raises:
        UserError: Another process is building there, or the folder contains other files.
    """
    if not (folder / LOCK_FILE).exists():  # another process may be building, and its files come and go
        refuse_foreign(folder)
    busy = f"{folder} is being built by another process: wait for it or choose another."
    with locked_folder(folder, LOCK_FILE, busy):
        yield


def read_state(folder: Path) -> Request:
    """Return what the build in progress in `folder` was started with.

    Raises:
        UserError: The file is damaged.
    """
    try:
        return Request.model_validate_json((folder / STATE_FILE).read_bytes())
    except ValidationError as error:
        raise UserError(f"{folder / STATE_FILE} cannot be parsed: set overwrite to restart.") from error


def what_differs(started: Request, asked: Request, *, ignored: Container[str] = ()) -> str | None:
    """Name the first part of a request that differs, of the embedder its precision if only that does; None if none."""
    fields = set(Request.model_fields)  # an `IndexInfo` has more
    stored, new = (request.model_dump(include=fields) for request in (started, asked))
    if (differs := difference(stored, new, ignored=ignored)) is None:
        return None
    part, _, name = differs.field.partition(".")
    return (name if name == "precision" else part).replace("_", " ")


def _require_same(folder: Path, earlier: Request, request: Request) -> None:
    """Raise UserError with the name of the first field that differs."""
    if what := what_differs(earlier, request):
        if folder.name == REBUILD:
            raise UserError(
                f"{folder.parent} has an interrupted change or rebuild of another {what}: do the same again to "
                "finish it, or set overwrite to discard it."
            )
        raise UserError(
            f"{folder} was started with another {what}: choose another folder, or set overwrite to restart."
        )


def is_corpus(path: Path | str, digest: str) -> bool:
    """Return whether a file of passages has the hash that `index.json` gives, be it built from a file or updated."""
    return bool(which_corpora(path, [digest]))


def which_corpora(path: Path | str, digests: Collection[str]) -> list[str]:
    """Return those of the hashes which a file of passages has, as `is_corpus`."""
    own = {
        CONTENT + content_hash(map(stored, read_passages(path))) if updated else corpus_hash(path)
        for updated in {digest.startswith(CONTENT) for digest in digests}
    }
    return [digest for digest in digests if digest in own]
