"""Replace a complete index: the old one opens until the new one is complete, wherever the process is killed.

The new index is built in the subfolder `.rebuild`. Then the old `index.json` is deleted, and from that moment on
`.rebuild` is opened. Its files are linked into the folder, `index.json` last; then `.rebuild` is deleted, its
`index.json` first.
"""

import os
import shutil
from pathlib import Path

from corpora.index.info import Request
from corpora.index.manifest import INFO_FILE, REBUILD, STATE_FILE, clear, prepare, read_info, read_state
from signatures.common.errors import UserError
from signatures.common.files import atomic_write


def complete_index(folder: Path) -> Path:
    """Return the folder to open: `folder`, or its `.rebuild` while that replaces it."""
    new = folder / REBUILD
    return new if (new / INFO_FILE).is_file() and not (folder / INFO_FILE).is_file() else folder


def state_of(folder: Path) -> tuple[Path, bytes | None]:
    """Return the folder to open and its `index.json`: equal values before and after mean that nothing was replaced."""
    chosen = folder
    try:
        chosen = complete_index(folder)
        return chosen, (chosen / INFO_FILE).read_bytes()
    except OSError:
        return chosen, None


def rebuild_folder(folder: Path, *, resume: bool, overwrite: bool) -> Path | None:
    """Return where to build the index that replaces the one in `folder`; None if there is nothing to replace."""
    new = folder / REBUILD
    if overwrite and (folder / INFO_FILE).is_file():
        if new.exists():
            shutil.rmtree(new)
        return new
    return new if resume and (new / STATE_FILE).is_file() else None


def update_folder(folder: Path, request: Request) -> Path:
    """Return where to build the updated index: what an interrupted call with the same `request` left, or a new folder.

    Whatever else was started there is deleted; the index in `folder` stays.
    """
    new = folder / REBUILD
    if (new / STATE_FILE).is_file() and not _is_started(new, request):
        (new / STATE_FILE).unlink()  # first: what a kill leaves is then no build that can be resumed
        shutil.rmtree(new)
    prepare(new, request, resume=True, overwrite=False)
    return new


def _is_started(new: Path, request: Request) -> bool:
    try:
        return read_state(new) == request
    except UserError:
        return False


def finish_replacing(folder: Path) -> None:
    """Put the complete index in `.rebuild` in place of that in `folder`, and delete what a killed call left of it."""
    new = folder / REBUILD
    if (new / INFO_FILE).is_file():
        files = read_info(new).files
        (folder / INFO_FILE).unlink(missing_ok=True)
        clear(folder)
        for name in files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            _link(new / name, folder / name)
        with atomic_write(folder / INFO_FILE, "wb") as file:
            file.write((new / INFO_FILE).read_bytes())
        for name in (STATE_FILE, INFO_FILE):
            (new / name).unlink(missing_ok=True)
    if new.is_dir() and not (new / STATE_FILE).is_file():  # else it is a build that can be resumed
        shutil.rmtree(new)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target)
