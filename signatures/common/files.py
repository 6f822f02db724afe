"""Atomic writes (a temporary file, then renamed), a lock between processes, and SHA-256 digests."""

import contextlib
import errno
import functools
import hashlib
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copymode, rmtree
from typing import IO, TYPE_CHECKING, Any

from signatures.common.errors import UserError

if TYPE_CHECKING:
    from filelock import BaseFileLock

FULL = {  # what helps, by the number of an error: the disk, a quota, or the size that a file may have
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
}
_RANDOM = "[a-z0-9_]{8}"  # as `tempfile` names files


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
        raise UserError(f"{Path(path).parts[0]} of {path} is not a home folder: write the path in full.") from None


@contextlib.contextmanager
def atomic_write(path: Path | str, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a temporary file in the folder of `path`, and rename it to `path` when the block ends without an error.

    Args:
        path: The finished file, which keeps the mode that it has; its folder is created if missing.
        mode: "w" for UTF-8 text, "wb" for bytes.

    Raises:
        OSError: The disk is full or the folder cannot be written; `path` is then unchanged.
        UserError: As `refuse_pipe`.
    """
    path = Path(path)
    refuse_pipe(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_temporaries(path.parent, path.name)
    name, lock = _locked(lambda: _named(*tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")))
    try:
        with open(name, mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        try:
            copymode(path, name)  # which its owner may have narrowed
        except FileNotFoundError:
            share(Path(name))
        Path(name).replace(path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in FULL and error.filename is None:
            error.filename = str(path)  # a write names no file
        raise
    finally:
        _release(lock)


def share(path: Path) -> None:
    """Give a file or folder that was made for its owner alone the mode that the umask allows, as `open` does."""
    mode = path.stat().st_mode  # a folder in one of a group has its bit, by which its files are the group's
    path.chmod((mode & stat.S_ISGID | 0o777 if stat.S_ISDIR(mode) else 0o666) & ~_umask())


@functools.cache
def _umask() -> int:
    current = os.umask(0o077)  # it can only be read by setting it: what another thread makes meanwhile is private
    os.umask(current)
    return current


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise a failed write as UserError: the user can free disk space or change permissions."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{path} cannot be written ({error.strerror or error}). Existing content is kept; "
            f"{FULL.get(error.errno or 0, 'let this user write it')} or choose another folder."
        ) from error


@contextlib.contextmanager
def temporary_folder(parent: Path | str, prefix: str) -> Iterator[Path]:
    """Yield a new folder in `parent`, which is removed at the end; those of this prefix that kills left go first."""
    _remove_abandoned(Path(parent), re.compile(rf"{re.escape(prefix)}{_RANDOM}"))
    name, lock = _locked(lambda: tempfile.mkdtemp(dir=parent, prefix=prefix))
    try:
        yield Path(name)
    finally:
        rmtree(name, ignore_errors=True)
        _release(lock)


def remove_temporaries(folder: Path | str, name: str | None = None) -> None:
    """Remove the temporary files that killed calls of `atomic_write` left in a folder, but not those being written.

    Args:
        folder: May be missing.
        name: Of the finished file; None for all.
    """
    finished = ".+" if name is None else re.escape(name)
    _remove_abandoned(Path(folder), re.compile(rf"\.{finished}\.{_RANDOM}\.tmp"))


def _remove_abandoned(folder: Path, names: re.Pattern[str]) -> None:
    with contextlib.suppress(OSError):  # a folder that cannot be listed has nothing that could be removed
        for path in [path for path in folder.iterdir() if names.fullmatch(path.name)]:
            if not path.is_symlink() and (lock := _lock(path, wait=False)) is not None:
                rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
                _release(lock)


def _named(handle: int, name: str) -> str:
    os.close(handle)
    return name


def _locked(make: Callable[[], str]) -> tuple[str, int | None]:
    """Make a temporary file or folder, and lock it as long as this process lives, so that no other one removes it."""
    while True:
        name = make()
        lock = _lock(name, wait=True)
        if os.path.lexists(name):
            return name, lock
        _release(lock)  # another process took it for abandoned before it was locked


def _lock(path: Path | str, *, wait: bool) -> int | None:
    """Lock a temporary file or folder; return the descriptor that has the lock, which ends with its process.

    None means that a living process has it, or that there are no such locks: on Windows, where what is open cannot be
    removed, and in some network file systems, whose temporaries are never removed.
    """
    if sys.platform == "win32":
        return None
    import fcntl

    handle = None
    try:
        handle = os.open(path, os.O_RDONLY if Path(path).is_dir() else os.O_RDWR)
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        _release(handle)
        return None
    return handle


def _release(lock: int | None) -> None:
    if lock is not None:
        os.close(lock)


def refuse_links(folder: Path | str) -> None:
    """Raise UserError if something in a folder, which may be missing, is a symbolic link.

    What is continued is written into its files, and a folder that a stranger packed could have links to files of the
    user's in their place.

    Raises:
        UserError: There is a link.
        OSError: The folder cannot be read.
    """
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as found:
        for each in found:
            if each.is_symlink():
                raise UserError(
                    f"{each.path} is a link, and nothing is written through links: put the file itself in its place."
                )


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
        try:  # on POSIX before the release, so that no other holder's new file is deleted; on Windows that deletes it
            with contextlib.suppress(PermissionError):
                Path(path).unlink(missing_ok=True)
        finally:
            lock.release()


def _acquire(lock: "BaseFileLock", folder: Path) -> None:
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # the last holder has just removed the folder
            lock.acquire(blocking=False)
            return


def utf8(text: str) -> str:
    """Return `text` with "?" for lone surrogates (halves of a split emoji), which no file or engine accepts."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def refuse_pipe(path: Path | str) -> None:
    """Raise UserError if a path is a device or a pipe: reading it may never end, and a file would replace it."""
    path = Path(path)
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise UserError(f"{path} is a device or a pipe: name a file.")


def sha256_file(path: Path | str) -> str:
    """Return the hexadecimal SHA-256 of a file's bytes; refuses what `refuse_pipe` does."""
    refuse_pipe(path)
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_bytes(content: bytes) -> str:
    """Return the hexadecimal SHA-256 of `content`."""
    return hashlib.sha256(content).hexdigest()


def sha256_text(text: str) -> str:
    """Return the hexadecimal SHA-256 of a text's UTF-8 bytes; lone surrogates are encoded as they are."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
