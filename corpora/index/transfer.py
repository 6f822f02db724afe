"""Copy an index from where it was pushed to a folder, whatever lies between: resumable, each hash checked.

`files.json` beside a pushed index states size and SHA-256 of each file, `index.json` included. Files are received in
the subfolder `.rebuild`, each under a temporary name until its hash is right; `index.json` comes last, and then the
index replaces what was there (`corpora.index.replace`).
"""

import contextlib
import hashlib
import os
import re
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from corpora.index.build import explained
from corpora.index.info import IndexInfo, canonical
from corpora.index.manifest import (
    FILES_FILE,
    INFO_FILE,
    REBUILD,
    STATE_FILE,
    check_files,
    exclusive,
    parse_info,
    read_info,
    remove_leftovers,
)
from corpora.index.progress import size
from corpora.index.replace import finish_replacing
from signatures.common.errors import UserError, first_problem, seen
from signatures.common.files import atomic_write, refuse_links, sha256_bytes, sha256_file
from signatures.common.progress import ProgressLine
from signatures.common.strict_json import parse_strict_json, read_limited

_AT_A_TIME = 4  # files in flight
_ATTEMPTS = 5  # at a file whose connection breaks off
_MOST_READ = 16 << 20  # bytes of `files.json` and `index.json`, which are read whole
_PART = ".part"  # ends the name of a file that is not complete
# What builds write and nothing else: no pickles, no other hidden files, no names that differ in case alone.
_KNOWN = re.compile(
    r"(?:(?:bm25s|dense|graph)/)?[a-z][a-z0-9_.]*\.(?:npy|json|jsonl|txt|faiss)"
    r"|bm25/(?:\.managed\.json|meta\.json|[0-9a-f]{32}(?:\.[a-z0-9]+)+(?<!\.part))"
)


class Lost(UserError):
    """A connection broke off; another attempt may go on."""


class _Stopped(Exception):
    """Another file failed, or Ctrl-C was pressed."""


@dataclass(frozen=True)
class Source:
    """Where a pushed index lies.

    Args:
        name: Of the place, for messages.
        stream: Given the name of a file and the byte to begin at, opens it; yields the byte at which it begins, which
            may be 0 instead, and the pieces. Raises `Lost`, or UserError where another attempt is in vain.
    """

    name: str
    stream: Callable[[str, int], AbstractContextManager[tuple[int, Iterator[bytes]]]]

    def read(self, file: str) -> bytes:
        """Return the bytes of a small file.

        Raises:
            UserError: It cannot be read, or is larger than 16 MiB.
        """
        content = bytearray()
        with self.stream(file, 0) as (_, pieces):
            for piece in pieces:
                content += piece
                if len(content) > _MOST_READ:
                    raise UserError(f"{self.name}/{file} is larger than {size(_MOST_READ)}: it is not an index file.")
        return bytes(content)


class SharedFile(BaseModel):
    """Size in bytes and SHA-256 of a file of a pushed index."""

    model_config = ConfigDict(strict=True, frozen=True)

    bytes: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class SharedIndex(BaseModel):
    """The content of `files.json`.

    Args:
        files: Path inside the folder -> size and SHA-256 of the file, `index.json` included.
    """

    model_config = ConfigDict(strict=True, frozen=True)

    schema_version: Literal[1] = 1
    files: dict[str, SharedFile]

    def raw(self) -> bytes:
        """Return the bytes of the file."""
        return canonical(self.model_dump()).encode() + b"\n"


class Received(NamedTuple):
    """What `receive` returns.

    Args:
        info: The content of `index.json`.
        changed: False if the same index was there already.
    """

    info: IndexInfo
    changed: bool


def shared_index(folder: Path, info: IndexInfo, *, progress: bool) -> SharedIndex:
    """Return what `files.json` says of the index in exactly this folder; reads all its files.

    Raises:
        UserError: It lists a file that no build writes.
    """
    paths = {name: folder / name for name in (*sorted(info.files), INFO_FILE)}
    sizes = {name: path.stat().st_size for name, path in paths.items()}
    found: dict[str, SharedFile] = {}
    with ProgressLine("Hashing", "what", "bar", "bytes", total=sum(sizes.values()), shown=progress) as line:
        for name, path in paths.items():
            found[name] = SharedFile(bytes=sizes[name], sha256=sha256_file(path))
            line.update(advance=sizes[name])
    return _checked(SharedIndex(files=found), str(folder))


def read_shared(source: Source) -> SharedIndex:
    """Return the checked `files.json` of a place.

    Raises:
        UserError: There is none, or it is not what `push_index` writes.
    """
    place = f"{source.name}/{FILES_FILE}"
    try:
        shared = SharedIndex.model_validate(parse_strict_json(source.read(FILES_FILE)))
    except (ValidationError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        reason = first_problem(error) if isinstance(error, ValidationError) else str(error)
        raise UserError(f"{place} is not in a pushed index ({reason}): push it with `verihop index push`.") from error
    return _checked(shared, place)


def _checked(shared: SharedIndex, place: str) -> SharedIndex:
    unknown = [name for name in shared.files if not _KNOWN.fullmatch(name) or name in (FILES_FILE, STATE_FILE)]
    if unknown or INFO_FILE not in shared.files:
        what = f"lists {seen(unknown[0])}, which is not a file of an index" if unknown else f"does not list {INFO_FILE}"
        raise UserError(f"{place} {what}: nothing was written. Get the index from a trusted source.")
    return shared


def receive(source: Source, shared: SharedIndex, folder: Path, *, overwrite: bool, progress: bool) -> Received:
    """Copy a pushed index into a folder; an interrupted call is finished by the same one.

    Args:
        source: Where it lies.
        shared: Its `files.json`.
        folder: New, empty, or with `overwrite` an index, which opens until the new one is complete.
        overwrite: Replace another index.
        progress: Show size and progress on stderr.

    Raises:
        UserError: A file is missing, not the one that was pushed, or none of an index; the folder has another index or
            other files; the disk is or would be full; the connection breaks off again and again.
    """
    raw = source.read(INFO_FILE)
    if SharedFile(bytes=len(raw), sha256=sha256_bytes(raw)) != shared.files[INFO_FILE]:
        raise _damaged(source, INFO_FILE)
    info = parse_info(raw, f"{source.name}/{INFO_FILE}")
    listed = {name: file.bytes for name, file in shared.files.items() if name != INFO_FILE}
    if listed != {name: file.bytes for name, file in info.files.items()}:
        raise UserError(f"{source.name}: {FILES_FILE} and {INFO_FILE} list other files: push the index again.")
    with explained(folder, "then run the same command again"), exclusive(folder):
        remove_leftovers(folder)
        finish_replacing(folder)
        if _has(folder, shared, overwrite=overwrite):
            return Received(info, changed=False)
        new = folder / REBUILD
        _begin(new, shared, listed)
        what = f"{info.passages:,} passages ({info.retriever}) from {source.name}"
        _receive_all(source, shared, new, sorted(listed, key=lambda name: -listed[name]), what, progress=progress)
        try:
            check_files(new, info)
        except UserError:
            (new / STATE_FILE).unlink()  # the next call begins anew
            raise
        with atomic_write(new / INFO_FILE, "wb") as file:
            file.write(raw)
        finish_replacing(folder)
    return Received(info, changed=True)


def _damaged(source: Source, name: str) -> UserError:
    return UserError(
        f"{source.name}/{name} is not the file that was pushed (its SHA-256 differs): it was replaced meanwhile, then "
        "run the same command again; or it is damaged, then push the index again."
    )


def _has(folder: Path, shared: SharedIndex, *, overwrite: bool) -> bool:
    """Return whether the folder has this index; raise UserError if it has another one that may not be replaced."""
    info = folder / INFO_FILE
    if info.is_file() and info.stat().st_size == shared.files[INFO_FILE].bytes:
        with contextlib.suppress(*([UserError] if overwrite else [])):  # damaged, and replaced
            if sha256_file(info) == shared.files[INFO_FILE].sha256:
                read_info(folder)
                return True
    if not overwrite and (info.is_file() or (folder / STATE_FILE).is_file()):
        raise UserError(f"{folder} already contains another index: replace it (--overwrite), or choose another folder.")
    return False


def _begin(new: Path, shared: SharedIndex, listed: dict[str, int]) -> None:
    """Make the folder to receive into; what an interrupted call left there stays if it was of the same index.

    Raises:
        UserError: Something there is a link, or the disk has too little space for what is missing.
    """
    state, there = new / STATE_FILE, 0
    try:
        is_same = read_limited(state, _MOST_READ) == shared.raw()
    except (FileNotFoundError, ValueError):
        is_same = False
    if is_same:
        for part in (new, *(new / name for name in {Path(name).parent for name in listed})):
            refuse_links(part)
        there = sum(path.stat().st_size for name in listed for path in _paths(new, name) if path.is_file())
    missing, free = sum(listed.values()) - there, shutil.disk_usage(new.parent).free
    if missing > free:
        raise UserError(
            f"{size(missing)} to download, but only {size(free)} free at {new.parent}: free some space, or "
            "choose a folder on another disk."
        )
    if new.is_dir() and not is_same:
        state.unlink(missing_ok=True)  # first: what a kill leaves is then nothing that can be resumed
        shutil.rmtree(new)
    with atomic_write(state, "wb") as file:
        file.write(shared.raw())


def _paths(folder: Path, name: str) -> tuple[Path, Path]:
    """Return the paths of a file of the index, complete and not."""
    return folder / name, folder / f"{name}{_PART}"


def _receive_all(
    source: Source, shared: SharedIndex, folder: Path, names: list[str], what: str, *, progress: bool
) -> None:
    """Receive files, some at a time; the first error, and Ctrl-C, stop all, and what they have is kept."""
    waiting, stopped, failures = deque(names), threading.Event(), list[BaseException]()
    total = sum(shared.files[name].bytes for name in names)
    with ProgressLine("Index", "what", "bar", "bytes", "bytes per second", "left", total=total, shown=progress) as line:
        line.say(f"{what}: {len(names)} files, {size(total)}.")

        def advance(count: int) -> None:
            if stopped.is_set():
                raise _Stopped
            line.update(advance=count)

        def work() -> None:
            with contextlib.suppress(IndexError):  # none is left
                while not stopped.is_set():
                    name = waiting.popleft()
                    try:
                        _receive(source, name, shared.files[name], folder, advance)
                    except BaseException as error:  # noqa: BLE001 - raised again below
                        failures.append(error)
                        stopped.set()

        # Not an executor, which would wait at exit for a server that does not answer.
        threads = [threading.Thread(target=work, daemon=True) for _ in range(min(_AT_A_TIME, len(names)))]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            stopped.set()
    if failures:
        raise failures[0]


def _receive(source: Source, name: str, expected: SharedFile, folder: Path, advance: Callable[[int], None]) -> None:
    """Receive one file, or the rest of it; it gets its name when its hash is right."""
    path, part = _paths(folder, name)
    if path.is_file() and path.stat().st_size == expected.bytes:
        advance(expected.bytes)
        return
    path.parent.mkdir(exist_ok=True)
    attempts = 0
    with open(part, "a+b") as file:
        whole = _Part(file, advance)
        while whole.facts() != expected:
            if whole.done >= expected.bytes:  # complete, and wrong: maybe because of what an earlier call left
                if not whole.resumed:
                    part.unlink()
                    raise _damaged(source, name)
                whole.restart()
            attempts, before = attempts + 1, whole.done
            try:
                _take(source, name, expected.bytes, whole)
            except Lost:
                if attempts == _ATTEMPTS or whole.done <= before:
                    raise
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


class _Part:
    """A file that is being received: how much of it is there, and the hash of that.

    Args:
        file: Open for reading and appending; may have what an earlier call received.
        advance: Counts bytes.
    """

    def __init__(self, file: IO[bytes], advance: Callable[[int], None]):
        self._file, self._advance = file, advance
        self.done, self._digest = 0, hashlib.sha256()
        file.seek(0)
        while piece := file.read(1 << 20):
            self._count(piece)
        self.resumed = self.done > 0

    def add(self, piece: bytes) -> None:
        """Append bytes."""
        self._count(piece)  # first: after Ctrl-C nothing more is written
        self._file.write(piece)

    def restart(self) -> None:
        """Begin again."""
        self._file.truncate(0)
        self._advance(-self.done)
        self.done, self._digest, self.resumed = 0, hashlib.sha256(), False

    def facts(self) -> SharedFile:
        """Return size and hash of what was received."""
        return SharedFile(bytes=self.done, sha256=self._digest.hexdigest())

    def _count(self, piece: bytes) -> None:
        self._advance(len(piece))
        self._digest.update(piece)
        self.done += len(piece)


def _take(source: Source, name: str, expected: int, whole: _Part) -> None:
    with source.stream(name, whole.done) as (start, pieces):
        if start != whole.done:
            whole.restart()
        for piece in pieces:
            if whole.done + len(piece) > expected:
                raise _damaged(source, name)
            whole.add(piece)
    if whole.done < expected:
        raise Lost(
            f"{source.name}/{name} ended after {whole.done:,} of {expected:,} bytes: run the same command again."
        )
