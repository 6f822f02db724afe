"""The file to which the rows of a run are appended."""

import contextlib
import errno
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO

from experiments.runs.files import ROWS, Row, writing
from signatures.common.secrets import redacted

SYNC_SECONDS = 1.0  # of rows that can be asked for again


class RowLog:
    """Append rows to `rows.jsonl` or another file; a killed process loses no row whose `append` has returned.

    An incomplete last line is removed first. There may be one writer at a time, which `run_lock` ensures.

    Args:
        folder: Of the run.
        name: The file in it.
        sync_every: Least seconds between two waits for the disk, each of which takes longer than all else about a row;
            a power cut may lose the rows since the last wait. 0 waits for each row.
        first: Called before each wait, to have the disk take what belongs to the rows before them.
    """

    def __init__(
        self, folder: Path, name: str = ROWS, *, sync_every: float = 0.0, first: Callable[[], None] = lambda: None
    ):
        self._path, self._first = folder / name, first
        self._file: IO[bytes] | None = None
        self._sync_every, self._synced, self._unsynced = sync_every, time.monotonic(), False

    def __enter__(self) -> "RowLog":
        with writing(self._path):
            with open(self._path, "a+b") as file:
                file.seek(0)
                content = file.read()
                file.truncate(content.rfind(b"\n") + 1)
            self._file = open(self._path, "ab", buffering=0)  # a row is written, or the error raised, immediately
        return self

    def append(self, row: Row) -> None:
        """Write one row, with keys hidden.

        Raises:
            UserError: The disk is full; earlier rows are intact.
        """
        if self._file is None:
            raise RuntimeError("RowLog is used outside its `with` block.")
        # LMs can write lone surrogates, which UTF-8 cannot encode.
        line = json.dumps(redacted(row), ensure_ascii=False).encode(errors="replace") + b"\n"
        with writing(self._path):
            if self._file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._unsynced = True
            if time.monotonic() - self._synced >= self._sync_every:
                self._sync()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is None:
            return
        with contextlib.closing(self._file), writing(self._path) if kind is None else contextlib.suppress(OSError):
            if self._unsynced:
                self._sync()

    def _sync(self) -> None:
        assert self._file is not None
        self._unsynced = False  # a disk that fails is reported once
        self._first()
        os.fsync(self._file.fileno())
        self._synced = time.monotonic()
