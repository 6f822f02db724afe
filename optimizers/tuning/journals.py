"""Journal files of studies that survive a process which was killed while it wrote.

Optuna's backend reads a half-written last line as damage, and appends to it, so that the study could never be opened
again. Here such a line is cut off: whoever wrote it has died, since nobody else writes while the lock is held.
"""

import json
import os
from pathlib import Path
from typing import Any

from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.storages.journal._file import get_lock_file

_START = b'{"op_code":'  # of every record of Optuna's journals


class Journal(JournalFileBackend):
    """A journal that several processes write."""

    def __init__(self, path: str):
        # A lock file that is created exclusively works on NFS from version 3 on, and where there are no symbolic links.
        super().__init__(path, lock_obj=JournalFileOpenLock(path))
        with get_lock_file(self._lock):
            cut_unfinished(path)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Write records, and wait until they are on the disk."""
        with get_lock_file(self._lock):
            cut_unfinished(self._file_path)
            with open(self._file_path, "ab") as file:
                file.write(_lines(logs))
                file.flush()
                os.fsync(file.fileno())


class QuickJournal(JournalFileBackend):
    """A journal of one process, without lock and without waiting for the disk."""

    def __init__(self, path: str):
        super().__init__(path)
        cut_unfinished(path)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Write records."""
        with open(self._file_path, "ab") as file:
            file.write(_lines(logs))


def cut_unfinished(path: str | Path) -> None:
    """Cut off a last line without an end, unless the file is no journal: then it is left as it is."""
    with open(path, "r+b") as file:
        start = file.read(len(_START))
        if start != _START:
            return
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)


def _lines(logs: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs).encode()
