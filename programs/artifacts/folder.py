"""The folder of an artifact: it appears complete or not at all, and a kill never costs the one it replaces."""

import contextlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from signatures.common.errors import UserError
from signatures.common.files import exclusive_lock, share

_TEMPORARY = ".freezing"  # suffix of a folder that is being written


@contextlib.contextmanager
def replacing(folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield an empty folder that replaces `folder` when the block ends without an error.

    Raises:
        UserError: `folder` exists and is not an artifact or may not be overwritten, or another process writes to it.
    """
    with _locked(folder):
        recover(folder)
        if folder.exists() and not (overwrite and (folder / "artifact.json").exists()):
            raise UserError(f"{folder} exists already. Choose another folder, or set overwrite to replace an artifact.")
        temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.", suffix=_TEMPORARY))
        try:
            yield temporary
            share(temporary)
            if folder.exists():
                folder.rename(_backup(folder))
            temporary.rename(folder)
        finally:
            recover(folder)


def _locked(folder: Path) -> contextlib.AbstractContextManager[None]:
    busy = f"Another process is writing an artifact to {folder}: wait for it or choose another folder."
    return exclusive_lock(folder.parent / f".{folder.name}.freezing.lock", busy)


def clean_up(folder: Path) -> None:
    """Do as `recover` does, and remove the lock of a killed process.

    Raises:
        UserError: Another process is writing to the folder.
    """
    with _locked(folder):
        recover(folder)


def complete_artifact(folder: Path) -> Path:
    """Return the folder to read: `folder`, or the artifact that a killed process had moved away to replace it."""
    backup = _backup(folder)
    return backup if not folder.exists() and (backup / "artifact.json").is_file() else folder


def _backup(folder: Path) -> Path:
    return folder.parent / f".{folder.name}.replaced"


def recover(folder: Path) -> None:
    """Clean up after a killed `freeze` to `folder`: restore an artifact moved away, remove incomplete ones."""
    backup = _backup(folder)
    if (backup / "artifact.json").is_file() and not folder.exists():
        backup.rename(folder)
    ours = re.compile(rf"\.{re.escape(folder.name)}\.([a-z0-9_]{{8}}{re.escape(_TEMPORARY)}|replaced)")
    for left in folder.parent.iterdir() if folder.parent.is_dir() else ():
        if ours.fullmatch(left.name) and left.is_dir():
            shutil.rmtree(left)
