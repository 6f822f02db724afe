"""Caches an oracle's probabilities on disk: SQLite, keyed by fingerprint and hashes of the texts."""

import contextlib
import hashlib
import sqlite3
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from optimizers.metrics.entailment.oracle import Agreement, EntailmentOracle, Pair, over_distinct
from programs.lms.caches import cache_dir
from signatures.common.errors import UserNotice

_TABLE = "CREATE TABLE IF NOT EXISTS judged (pair BLOB PRIMARY KEY, value REAL NOT NULL) WITHOUT ROWID"
_BATCH = 500  # variables in one statement; SQLite allows 999 everywhere


def default_path() -> Path:
    """Return the default file: `entailment.sqlite` in the cache folder."""
    return cache_dir() / "entailment.sqlite"


class CachedOracle:
    """An oracle with a cache on disk. Thread- and process-safe; the file may be deleted at any time.

    If the file cannot be read or written, a warning is issued once and the oracle works without it.

    Args:
        oracle: Judges the pairs that are not in the cache.
        path: The file; created if missing.
    """

    def __init__(self, oracle: EntailmentOracle, path: Path | None = None):
        self.oracle = oracle
        self.path = path or default_path()
        self._lock = threading.Lock()
        self._usable = True

    @property
    def name(self) -> str:
        """Return the oracle's name."""
        return self.oracle.name

    @property
    def fingerprint(self) -> str:
        """Return the oracle's fingerprint."""
        return self.oracle.fingerprint

    @property
    def threshold(self) -> float:
        """Return the oracle's threshold."""
        return self.oracle.threshold

    @property
    def agreement(self) -> Agreement | None:
        """Return the oracle's agreement with human judgements."""
        return self.oracle.agreement

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        """Return P(entailed) of each (premise, hypothesis), calling the oracle only for pairs that are not cached."""
        return over_distinct(pairs, self._look_up)

    def _look_up(self, pairs: list[Pair]) -> list[float]:
        keys = [self._key(pair) for pair in pairs]
        probabilities = self._read(keys)
        fresh = [(key, pair) for key, pair in zip(keys, pairs, strict=True) if key not in probabilities]
        if fresh:
            judged = dict(zip((key for key, _ in fresh), self.oracle([pair for _, pair in fresh]), strict=True))
            self._write(judged)
            probabilities |= judged
        return [probabilities[key] for key in keys]

    def _key(self, pair: Pair) -> bytes:
        digest = hashlib.sha256()
        for part in (self.fingerprint, *pair):
            digest.update(hashlib.sha256(part.encode("utf-8", "surrogatepass")).digest())
        return digest.digest()

    def _read(self, keys: list[bytes]) -> dict[bytes, float]:
        probabilities: dict[bytes, float] = {}

        def look_up(connection: sqlite3.Connection) -> None:
            for start in range(0, len(keys), _BATCH):
                some = keys[start : start + _BATCH]
                marks = ",".join("?" * len(some))
                probabilities.update(
                    connection.execute(f"SELECT pair, value FROM judged WHERE pair IN ({marks})", some)
                )

        self._use(look_up)
        return probabilities

    def _write(self, judged: dict[bytes, float]) -> None:
        rows = list(judged.items())
        self._use(lambda connection: connection.executemany("INSERT OR REPLACE INTO judged VALUES (?, ?)", rows))

    def _use(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Run `work` on the file in one transaction."""
        if not self._usable:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock, contextlib.closing(sqlite3.connect(self.path, timeout=60)) as connection, connection:
                connection.execute(_TABLE)
                work(connection)
        except (sqlite3.Error, OSError) as error:
            self._usable = False
            message = f"Judgements cannot be cached in {self.path} ({error}); they are computed again."
            warnings.warn(UserNotice(message), stacklevel=2)
