"""A folder of work that can be stopped and resumed: its lock, whether a request is the same, what is written into it.

A killed process leaves at most part of a record at the end of a file, which the next one cuts off, and temporary files
and folders, which it removes.
"""

import contextlib
import errno
import json
import os
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

from signatures.common.errors import UserError, undone_by_error
from signatures.common.files import exclusive_lock, refuse_links, remove_temporaries, temporary_folder, writing
from signatures.common.secrets import redacted


@contextlib.contextmanager
def locked_folder(folder: Path, lock: str, busy: str) -> Iterator[None]:
    """Lock a folder, created if missing, against other processes; it is removed at the end if it is empty.

    Temporary files of a killed process are removed.

    Args:
        folder: The folder.
        lock: Name of the lock file in it.
        busy: The error message if another process has the lock.

    Raises:
        UserError: Another process has the lock, the folder is not writable, or something in it is a link.
    """
    try:
        with contextlib.ExitStack() as stack:
            with writing(folder):
                refuse_links(folder)
                stack.enter_context(exclusive_lock(folder / lock, busy))
                remove_temporaries(folder)
            yield
    finally:
        with contextlib.suppress(OSError):  # not empty: what was made, or another process's lock
            folder.rmdir()


class Difference(NamedTuple):
    """Where two requests differ: a dotted field, and its value in each as text of at most 80 characters."""

    field: str
    stored: str
    asked: str


def difference(
    stored: Mapping[str, Any], asked: Mapping[str, Any], *, ignored: Container[str] = ()
) -> Difference | None:
    """Return the first field in which a request differs from the stored one; None if both are the same."""
    for part in {**asked, **stored}:  # what one lacks is named before what differs in the parts that follow
        if part in ignored:
            continue
        old, new = (dict(_flat({part: request.get(part)})) for request in (stored, asked))
        for name in [*new, *old]:
            if old.get(name) != new.get(name):
                return Difference(name, _short(old.get(name)), _short(new.get(name)))
    return None


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        if isinstance(item, Mapping) and item:
            yield from _flat(item, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", item


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


@contextlib.contextmanager
def new_folder(folder: Path, prefix: str) -> Iterator[Path]:
    """Yield a path that does not exist; it is renamed to `folder` when the block ends without an error, else removed.

    Args:
        folder: The finished folder; that of its parent is created if missing.
        prefix: Of the temporary folder beside it.

    Raises:
        OSError: It cannot be renamed, as where `folder` exists and is not empty.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(folder.parent, prefix) as temporary:
        made = temporary / "new"
        yield made
        made.rename(folder)


def json_line(value: Any, *, allow_nan: bool = True) -> bytes:
    """Return a value as a line of JSON, with keys hidden."""
    # LMs can write lone surrogates, which UTF-8 cannot encode.
    return json.dumps(redacted(value), ensure_ascii=False, allow_nan=allow_nan).encode(errors="replace") + b"\n"


def complete_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield `(number from 1, line)` of every non-empty line that ends in a newline; nothing if there is no file."""
    if not path.exists():
        return
    if not path.is_file():
        raise UserError(f"{path} is not a file. Restore it, or delete the folder.")  # a pipe would never end
    try:
        with open(path, "rb") as file:  # split at line feeds only: JSON leaves other line separators unescaped
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n") and len(line) > 1:  # without a line feed it is incomplete, even if it parses
                    yield number, line[:-1]
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}). Restore it, or delete the folder.") from None


class AppendedFile:
    """A file of records, lines unless a subclass says otherwise; no record is lost whose `append` has returned.

    Part of a record at the end is removed first. Safe under threads; one process at a time, which a lock ensures.

    Args:
        path: The file; created with its folder if missing.
        sync_every: Least seconds between two waits for the disk, each of which takes longer than all else about a
            record; a power cut may lose the records since the last wait. 0 waits for each record.
        first: Called before each wait, to have the disk take what belongs to the records before them.
    """

    def __init__(self, path: Path, *, sync_every: float = 0.0, first: Callable[[], None] = lambda: None):
        self.path, self._first = path, first
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None
        self._end = 0
        self._sync_every, self._synced, self._unsynced = sync_every, time.monotonic(), False

    def complete_bytes(self) -> int:
        """Return how many bytes of the file, which exists, are complete records."""
        return self.path.read_bytes().rfind(b"\n") + 1

    def __enter__(self) -> Self:
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = open(self.path, "ab", buffering=0)
            with undone_by_error(file.close):
                self._end = self.complete_bytes()
                file.truncate(self._end)
        self._file = file
        return self

    def append(self, value: Any) -> tuple[int, int]:
        """Write a JSON value, with keys hidden, and return where it starts and ends; raises as `write` does."""
        return self.write(json_line(value))

    def write(self, record: bytes) -> tuple[int, int]:
        """Write one record, and return where it starts and ends.

        Raises:
            UserError: The disk is full; earlier records are intact.
        """
        if self._file is None:
            raise RuntimeError(f"{type(self).__name__} is used outside its `with` block.")
        with self._lock, writing(self.path):
            try:
                written = 0
                while written < len(record):  # where there is room for a part, the next write says why
                    taken = self._file.write(record[written:])
                    if not taken:
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    written += taken
            except OSError:
                with contextlib.suppress(OSError):  # what follows must not stand behind part of a record
                    os.ftruncate(self._file.fileno(), self._end)
                raise
            start, self._end = self._end, self._end + len(record)
            self._unsynced = True
            if time.monotonic() - self._synced >= self._sync_every:
                self.sync()
        return start, self._end

    def sync(self) -> None:
        """Wait until the disk has all records.

        Raises:
            UserError: It fails, which is said once.
        """
        if self._file is not None and self._unsynced:
            self._unsynced = False
            self._first()
            with writing(self.path):
                os.fsync(self._file.fileno())
            self._synced = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is None:
            return
        try:
            with contextlib.closing(self._file), contextlib.suppress(*([] if kind is None else [UserError])):
                self.sync()
        finally:
            self._file = None
