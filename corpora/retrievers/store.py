"""The passages of an index, read one at a time from a memory-mapped file, so that memory stays constant."""

import mmap
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import ujson

from corpora.retrievers.arrays import write_npy
from signatures.files import atomic_write
from signatures.types import Passage

TEXT_FILE = "passages.jsonl"
OFFSETS_FILE = "passages.offsets.npy"


def utf8(text: str) -> str:
    """Return `text` with "?" for lone surrogates (halves of a broken emoji), which no engine accepts."""
    return text.encode("utf-8", "replace").decode()


def write_store(folder: Path, passages: Iterable[Passage], advance: Callable[[int], object] = lambda _: None) -> int:
    """Copy id, title and text of `passages` into `folder`; return how many there were.

    Both files are whole or absent; the offsets are written last, so their presence means that the store is complete.

    Args:
        folder: Where the two files are written.
        passages: At least one, with ids of their own (`read_passages` sees to both).
        advance: Called with 1 for each passage.
    """
    offsets = array("q", [0])
    with atomic_write(folder / TEXT_FILE, "wb") as file:
        for passage in passages:
            record = {"id": passage.id, "title": utf8(passage.title), "text": utf8(passage.text)}
            line = ujson.dumps(record, ensure_ascii=False).encode() + b"\n"
            file.write(line)
            offsets.append(offsets[-1] + len(line))
            advance(1)
    write_npy(folder / OFFSETS_FILE, (len(offsets),), [np.frombuffer(offsets, dtype=np.int64)])
    return len(offsets) - 1


class PassageStore:
    """Looks passages up by row, the position they had in the corpus. Safe under threads."""

    def __init__(self, folder: Path):
        self._offsets = np.load(folder / OFFSETS_FILE, mmap_mode="r", allow_pickle=False)
        with open(folder / TEXT_FILE, "rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def record(self, row: int) -> dict[str, str]:
        """Return id, title and text of the passage at `row`."""
        start, end = self._offsets[row : row + 2].tolist()
        record: dict[str, str] = ujson.loads(self._bytes[start:end])
        return record

    def records(self, start: int = 0, stop: int | None = None) -> Iterator[dict[str, str]]:
        """Yield the records of rows `start` to `stop` (exclusive; None: to the end) in order."""
        for row in range(start, len(self) if stop is None else stop):
            yield self.record(row)

    def passages(self, rows: list[int], scores: list[float]) -> list[Passage]:
        """Return the passages at `rows`, each with its score, in the order given."""
        return [Passage(score=score, **self.record(row)) for row, score in zip(rows, scores, strict=True)]
