"""Atomic writes (a temporary file, then renamed), a lock between processes, and SHA-256 digests."""

import contextlib
import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from signatures.common.errors import UserError

if TYPE_CHECKING:
    from filelock import BaseFileLock

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # error numbers: the disk, a quota, or the size that a file may have
_TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}\.tmp")  # as `tempfile` names them


def cache_dir() -> Path:
    """Return the cache folder: `VERIHOP_CACHE_DIR` if set, else `verihop` in the platform's cache folder.

    Raises:
        UserError: The variable begins with `~name`, and nobody of that name has a home folder, nor has the account.
    """
    if override := os.environ.get("VERIHOP_CACHE_DIR"):
        return expanded(override)
    import platformdirs

    return _of_account(lambda: platformdirs.user_cache_path("verihop", appauthor=False, opinion=False))


def config_dir() -> Path:
    """Return the user's own configuration folder of verihop: `verihop` in the platform's.

    Raises:
        UserError: The account has no home folder.
    """
    import platformdirs

    return _of_account(lambda: platformdirs.user_config_path("verihop", appauthor=False))


def _of_account(folder: Callable[[], Path]) -> Path:
    try:
        return folder()
    except RuntimeError:  # as in some containers; never a folder named "~" in the working folder
        raise UserError("This account has no home folder: set HOME to a folder that only you can write.") from None


def expanded(path: Path | str) -> Path:
    """Return a path with the home folder in place of `~` or `~name`.

    Raises:
        UserError: There is no such user, or no home folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UserError(f"{Path(path).parts[0]} of {path} is no home folder: write the path in full.") from None


@contextlib.contextmanager
def atomic_write(path: Path | str, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a temporary file in the folder of `path`, and rename it to `path` when the block ends without an error.

    Args:
        path: The finished file; its folder is created if missing.
        mode: "w" for UTF-8 text, "wb" for bytes.

    Raises:
        OSError: The disk is full or the folder cannot be written; `path` is then unchanged.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with open(handle, mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)  # mkstemp gives 0600, which only the owner can read
        Path(name).replace(path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in FULL and error.filename is None:
            error.filename = str(path)  # a write names no file
        raise


def remove_temporaries(folder: Path | str) -> None:
    """Remove temporary files that killed calls of `atomic_write` left in a folder; the caller must have its lock."""
    for path in Path(folder).glob(".*.tmp"):
        if _TEMPORARY.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def exclusive_lock(path: Path | str, busy: str) -> Iterator[None]:
    """Hold the file `path` as a lock while the block runs; the lock of a killed process is released.

    Args:
        path: The lock file; it and its folder are created if missing, and the file is deleted at the end.
        busy: The error message if another process, or another block of this one, holds the lock.

    Raises:
        UserError: The lock is held.
        OSError: The file cannot be created.
    """
    import filelock  # imported late: `verihop --help` does not need its 50 ms

    lock = filelock.FileLock(path, thread_local=False, fallback_to_soft=False)
    try:
        _acquire(lock, Path(path).parent)
    except filelock.Timeout:
        raise UserError(busy) from None
    try:
        yield
    finally:
        # On POSIX before the release, so that no other holder's new file is deleted; on Windows the release deletes it.
        with contextlib.suppress(PermissionError):
            Path(path).unlink(missing_ok=True)
        lock.release()


def _acquire(lock: "BaseFileLock", folder: Path) -> None:
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # the last holder has just removed the folder
            lock.acquire(blocking=False)
            return


def sha256_file(path: Path | str) -> str:
    """Return the hexadecimal SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_bytes(content: bytes) -> str:
    """Return the hexadecimal SHA-256 of `content`."""
    return hashlib.sha256(content).hexdigest()


def sha256_text(text: str) -> str:
    """Return the hexadecimal SHA-256 of a text's UTF-8 bytes; lone surrogates are encoded as they are."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
