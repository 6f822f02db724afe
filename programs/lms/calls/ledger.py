"""The sums of a budget, guarded by a lock: of one process, or of a process and its forks together."""

import math
import mmap
import tempfile
import threading
import weakref
from types import TracebackType
from typing import IO, Any

SUMS = ("calls", "tokens", "usd", "reserved_tokens", "reserved_usd", "in_flight", "start", "highest_price")


class Ledger:
    """Numbers by name, nan at first for those that may be unknown; change them inside `with` only.

    Call `share` before a fork: the numbers are then in shared memory, and a file lock guards them between processes,
    which the system releases if its owner is killed.
    """

    def __init__(self) -> None:
        self._numbers: Any = [0.0] * len(SUMS)  # or a view of shared memory
        self._change = threading.Condition()
        self._file: IO[bytes] | None = None
        self["start"] = self["highest_price"] = math.nan

    def share(self) -> None:
        """Share the numbers with forks of this process; repeated calls change nothing.

        Raises:
            OSError: No temporary file can be created.
        """
        with self._change:
            if self._file is not None:
                return
            memory = memoryview(mmap.mmap(-1, 8 * len(SUMS))).cast("d")
            for place, number in enumerate(self._numbers):
                memory[place] = number
            self._numbers, self._file = memory, tempfile.TemporaryFile()  # noqa: SIM115 - as long as the budget
            weakref.finalize(self, self._file.close)

    def __getitem__(self, name: str) -> float:
        return float(self._numbers[SUMS.index(name)])

    def __setitem__(self, name: str, number: float) -> None:
        self._numbers[SUMS.index(name)] = number

    def __enter__(self) -> "Ledger":
        self._change.acquire()
        self._lock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._unlock()
        self._change.release()

    def wait(self, seconds: float) -> None:
        """Let others in until a thread of this process calls `notify`, for at most `seconds`; inside `with` only."""
        self._unlock()
        try:
            self._change.wait(seconds)
        finally:
            self._lock()

    def notify(self) -> None:
        """End the waits of this process; inside `with` only. Other processes look again when theirs end."""
        self._change.notify_all()

    def _lock(self) -> None:
        if self._file is not None:
            import fcntl

            fcntl.lockf(self._file, fcntl.LOCK_EX)  # of the process, so it does not survive it, nor pass to a fork

    def _unlock(self) -> None:
        if self._file is not None:
            import fcntl

            fcntl.lockf(self._file, fcntl.LOCK_UN)
