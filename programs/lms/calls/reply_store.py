"""A store of LM replies on disk: one SQLite file, JSON values, bounded in bytes, least recently used entries first out.

One file and one connection serve all threads of a process, so that the number of open files does not grow with the
threads. Several processes may use the file at a time (write-ahead log, https://sqlite.org/wal.html).
"""

import json
import os
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock

from signatures.common.errors import UserNotice

Value = TypeVar("Value")

LOCKED_SECONDS = 10.0  # that another process may hold the file
_HOUR = 3600  # last uses are kept in hours, so that a hit rarely writes
_LARGEST_SHARE = 0.1  # of the store that a single reply may take
_FILLED = 0.9  # of the bound, after old entries were evicted
_BATCH = 16  # entries evicted at a time
_READ = "SELECT reply, used FROM replies WHERE key = ?"
_TABLES = (
    "CREATE TABLE IF NOT EXISTS replies (key TEXT NOT NULL UNIQUE, reply TEXT NOT NULL, used INTEGER NOT NULL)",
    "CREATE INDEX IF NOT EXISTS replies_by_use ON replies (used)",
)


class ReplyStore:
    """JSON values by key. Thread- and process-safe; the file may be deleted while nothing uses it.

    If the file is damaged, full, locked or cannot be written, one notice is issued, and the store goes on without what
    fails: without new entries, or empty.

    Args:
        path: The file; created with its folder when it is first used.
        max_bytes: Size of the file at most, at least 100,000; the write-ahead log may take a few MB more.
        clock: Seconds since a fixed point; decides which entries are old.
    """

    def __init__(self, path: Path, *, max_bytes: int, clock: Callable[[], float] = time.time):
        self.path, self.max_bytes, self._clock = path, max_bytes, clock
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process: int | None = None  # that opened the connection; a fork must not use it
        self._inherited: list[
            sqlite3.Connection | None
        ] = []  # kept open: closing them would release the parent's locks
        self._readable = self._writable = True

    def get(self, key: str) -> Any:
        """Return the value of a key; None if there is none, or if it cannot be read."""
        if not self._readable:
            return None
        row = self._attempt(lambda connection: connection.execute(_READ, (key,)).fetchone(), "readable")
        if row is None:
            return None
        if row[1] < self._hour():
            self._change("UPDATE replies SET used = ? WHERE key = ?", (self._hour(), key))
        try:
            return json.loads(row[0])
        except (TypeError, ValueError, RecursionError):
            self.delete(key)  # one damaged entry
            return None

    def put(self, key: str, value: Any) -> bool:
        """Store a value and return whether it is stored; a value that is not JSON or very large is not."""
        if not self._writable:
            return False
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            size = len(text.encode())
        except (TypeError, ValueError, RecursionError):
            return False
        if size > _LARGEST_SHARE * self.max_bytes:
            return False
        return self._attempt(lambda connection: self._write(connection, key, text), "writable") is not None

    def delete(self, key: str) -> None:
        """Remove a key if it is there."""
        self._change("DELETE FROM replies WHERE key = ?", (key,))

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    def __len__(self) -> int:
        row = self._attempt(
            lambda connection: connection.execute("SELECT count(*) FROM replies").fetchone(), "readable"
        )
        return int(row[0]) if row else 0

    def _change(self, statement: str, values: tuple[Any, ...]) -> None:
        if self._writable:
            self._attempt(lambda connection: connection.execute(statement, values), "writable")

    def _attempt(self, work: Callable[[sqlite3.Connection], Value], needed: str) -> Value | None:
        """Run `work`; after an error, issue a notice once and never try again what failed."""
        with self._lock:
            try:
                return work(self._opened())
            except (sqlite3.Error, OSError) as error:
                noticed = not (self._readable and self._writable)
                self._writable = False
                self._readable = self._readable and self._connection is not None and needed == "writable"
                cause = error
        if not noticed:
            message = (
                f"LM replies cannot be cached in {self.path} ({cause}): free space, or delete it if it is damaged."
            )
            warnings.warn(UserNotice(message), stacklevel=2)
        return None

    def _opened(self) -> sqlite3.Connection:
        if self._connection is not None and self._process == os.getpid():
            return self._connection
        self._inherited.append(self._connection)
        self._connection, self._process = None, os.getpid()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # SQLite does not wait for a lock when two processes switch a new file to the write-ahead log.
        with FileLock(f"{self.path}.lock", timeout=LOCKED_SECONDS):
            connection = sqlite3.connect(
                self.path, timeout=LOCKED_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")  # a killed process loses nothing; a power cut may
                connection.execute("PRAGMA trusted_schema = OFF")
                for statement in _TABLES:
                    connection.execute(statement)
            except BaseException:
                connection.close()
                raise
        self._connection = connection
        return connection

    def _write(self, connection: sqlite3.Connection, key: str, text: str) -> bool:
        if self._bytes(connection) + len(text) > self.max_bytes:
            self._evict(connection)
        connection.execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", (key, text, self._hour()))
        return True

    def _evict(self, connection: sqlite3.Connection) -> None:
        oldest = "DELETE FROM replies WHERE rowid IN (SELECT rowid FROM replies ORDER BY used, rowid LIMIT ?)"
        while self._bytes(connection) > _FILLED * self.max_bytes:
            if connection.execute(oldest, (_BATCH,)).rowcount == 0:
                return

    def _bytes(self, connection: sqlite3.Connection) -> int:
        """Return the bytes of the file that are in use; free pages are filled before the file grows."""
        pages, free, size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size

    def _hour(self) -> int:
        return int(self._clock() // _HOUR)
