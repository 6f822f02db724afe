"""A file of JSON lines, each compressed by itself (a member of a gzip file): append-only, and `zcat` reads it.

A process killed while it writes leaves at most one incomplete member at the end. It is ignored by readers and removed
by the next writer, as the incomplete line of a file of rows is. Any other damage is found by the checksums of gzip.
"""

import contextlib
import errno
import gzip
import json
import os
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from signatures.common.errors import UserError
from signatures.common.secrets import redacted
from signatures.common.strict_json import parse_strict_json

Place = tuple[int, int]  # start and end of a member, in bytes
_GZIP = 31  # of zlib's window bits: 15 with the header of gzip
_CHUNK = 1 << 16  # bytes read at a time
_MOST_BYTES = 64 << 20  # of one member, decompressed; RetroRAG's 200 replies with log-probabilities take 1 MB


def read_members(path: Path) -> Iterator[Any]:
    """Yield the JSON values of the complete members, in order; nothing if there is no file.

    Raises:
        UserError: A member is damaged; the message names it.
    """
    for value, _ in placed_members(path):
        yield value


def placed_members(path: Path) -> Iterator[tuple[Any, Place]]:
    """Yield the same values, each with its place in the file."""
    start = 0
    for number, raw, end in _members(path):
        try:
            yield parse_strict_json(raw), (start, end)
        except ValueError as error:
            raise _damaged(path, number, error) from None
        start = end


def read_place(path: Path, place: Place) -> Any:
    """Return the value at a place in the file, which this process has written or read before."""
    start, end = place
    with open(path, "rb") as file:
        file.seek(start)
        return json.loads(gzip.decompress(file.read(end - start)))


def _members(path: Path) -> Iterator[tuple[int, bytes, int]]:
    """Yield number from 1, content, and end in the file, of each complete member."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).") from None
    start = number = 0
    while start < len(content):
        number += 1
        reader, raw, size = zlib.decompressobj(_GZIP), list[bytes](), 0
        while not reader.eof and start < len(content):
            chunk = content[start : start + _CHUNK]
            try:
                raw.append(reader.decompress(chunk, _MOST_BYTES - size + 1))
            except zlib.error as error:
                raise _damaged(path, number, error) from None
            size += len(raw[-1])
            if size > _MOST_BYTES:
                raise _damaged(path, number, f"larger than {_MOST_BYTES:,} bytes")
            start += len(chunk) - len(reader.unused_data)
        if not reader.eof:
            return  # incomplete: the process that wrote it was killed
        yield number, b"".join(raw), start


def _damaged(path: Path, number: int, reason: object) -> UserError:
    return UserError(f"{path} is damaged in its member {number} ({reason}). Record the run again.")


class MemberLog:
    """Appends JSON values to such a file; safe under threads. There may be one writer at a time.

    Args:
        path: The file; created if missing.
    """

    def __init__(self, path: Path):
        self._path = path
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None
        self._end = 0

    def __enter__(self) -> "MemberLog":
        self._end = max((end for _, _, end in _members(self._path)), default=0)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with open(self._path, "ab") as file:
                file.truncate(self._end)
            self._file = open(self._path, "ab", buffering=0)
        except OSError as error:
            raise self._unwritable(error) from error
        return self

    def append(self, value: Any) -> Place:
        """Write one value, with keys hidden, and return its place.

        Raises:
            UserError: The disk is full; earlier values are intact.
        """
        if self._file is None:
            raise RuntimeError("MemberLog is used outside its `with` block.")
        # LMs can write lone surrogates, which UTF-8 cannot encode.
        line = json.dumps(redacted(value), ensure_ascii=False, allow_nan=False).encode(errors="replace") + b"\n"
        member = gzip.compress(line, mtime=0)
        with self._lock:
            try:
                if self._file.write(member) != len(member):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError as error:
                with contextlib.suppress(OSError):  # what follows must not stand behind half a member
                    os.ftruncate(self._file.fileno(), self._end)
                raise self._unwritable(error) from error
            start, self._end = self._end, self._end + len(member)
        return start, self._end

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is not None:
            with contextlib.closing(self._file), contextlib.suppress(OSError):
                os.fsync(self._file.fileno())
            self._file = None

    def _unwritable(self, error: OSError) -> UserError:
        return UserError(f"{self._path} cannot be written ({error.strerror or error}). Existing content is kept.")
