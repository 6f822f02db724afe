"""Files that are whole or absent, written under a temporary name and then renamed; and a lock between processes."""

import contextlib
import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from signatures.common.errors import UserError


@contextlib.contextmanager
def atomic_write(path: Path | str, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file beside `path` for writing and rename it to `path` when the block ends without an error.

    Args:
        path: Where the finished file shall stand; its folder is made when missing.
        mode: "w" for UTF-8 text, "wb" for bytes.

    Raises:
        OSError: The disk is full or the folder cannot be written; `path` is then as it was before.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with open(handle, mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)  # mkstemp gives 0600; a result file is meant to be read by others
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def exclusive_lock(path: Path | str, busy: str) -> Iterator[None]:
    """Hold the file `path` as a lock while the block runs; a killed process holds nothing, whatever it leaves behind.

    Args:
        path: The lock file; it and its folder are made when missing, and the file is deleted at the end.
        busy: What to say when another process, or another block of this one, holds the lock.

    Raises:
        UserError: The lock is held.
        OSError: The file cannot be made.
    """
    path = Path(path)
    handle = _lock(path, busy)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is still held, so that nobody's new lock file is deleted
        os.close(handle)


def _lock(path: Path, busy: str) -> int:
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError:
            continue  # its last holder has just removed the folder
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Deleted by its last holder between opening and locking, the file would keep nobody out.
            if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        except FileNotFoundError:
            pass
        except BlockingIOError:
            os.close(handle)
            raise UserError(busy) from None
        os.close(handle)


def sha256_file(path: Path | str) -> str:
    """Return the hexadecimal SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_text(text: str) -> str:
    """Return the hexadecimal SHA-256 of a text's UTF-8 bytes; half a character counts as itself."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
