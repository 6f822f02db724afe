"""Embed the questions of a run ahead of their first retrieval, many in one pass."""

import threading
from collections.abc import Callable
from itertools import islice
from typing import Any

BATCH = 32  # questions in one pass


class Prefetch:
    """Gives a retriever the questions that come next, in batches, from a thread of its own.

    Retrieval does not wait for it: a question that it has not reached is embedded when it is asked, and only then.

    Args:
        retriever: Without a method `prefetch` (BM25, none at all) nothing is done.
    """

    def __init__(self, retriever: Any):
        self._prefetch: Callable[[list[str]], None] | None = getattr(retriever, "prefetch", None)
        self._waiting: dict[str, None] = {}  # in order
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, question: str) -> None:
        """Have a question embedded soon."""
        if self._prefetch is None or self._closed:
            return
        with self._changed:
            self._waiting[question] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="prefetch", daemon=True)
                self._thread.start()
            if len(self._waiting) >= BATCH:
                self._changed.notify()

    def started(self, question: str) -> None:
        """Leave a question that is asked now to its retrieval."""
        if self._prefetch is not None:
            with self._changed:
                self._waiting.pop(question, None)

    def close(self) -> None:
        """Embed nothing more."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _run(self) -> None:
        assert self._prefetch is not None
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or len(self._waiting) >= BATCH)
                if self._closed:
                    return
                batch = list(islice(self._waiting, BATCH))
                for question in batch:
                    del self._waiting[question]
            try:
                self._prefetch(batch)
            except Exception:  # noqa: BLE001 - the retrieval of the question raises it where it is reported
                self._closed = True
