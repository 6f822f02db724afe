"""The passages of an index, read one at a time from a memory-mapped file, in constant memory.

`passages.txt` contains id, title and text of all passages, concatenated, in UTF-8, with a line feed after each text;
`passages.offsets.npy` contains the offset of each of the three. Reading takes a third of the time of parsing JSON.
"""

import mmap
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from corpora.retrievers.arrays import read_npy, write_npy
from signatures.common.errors import UserError, first_problem
from signatures.common.files import atomic_write
from signatures.types import Passage

TEXT_FILE = "passages.txt"
OFFSETS_FILE = "passages.offsets.npy"
_PASSAGES = TypeAdapter(list[Passage])  # validates a list at half the cost of one call per passage


def utf8(text: str) -> str:
    """Return `text` with "?" for lone surrogates (halves of a split emoji), which no engine accepts."""
    return text.encode("utf-8", "replace").decode()


def write_store(folder: Path, passages: Iterable[Passage], advance: Callable[[int], object] = lambda _: None) -> int:
    """Write id, title and text of `passages` into `folder`; return the number of passages.

    Both files are complete or absent; the offsets are written last, so with them the store is complete.

    Args:
        folder: Of the two files.
        passages: At least one, with unique ids (`read_passages` ensures both).
        advance: Called with 1 for each passage.
    """
    starts = array("q")
    end = 0
    with atomic_write(folder / TEXT_FILE, "wb") as file:
        for passage in passages:
            for part in (passage.id, passage.title, passage.text + "\n"):
                starts.append(end)
                end += file.write(part.encode("utf-8", "replace"))
            advance(1)
    starts.extend([end] * 3)
    table = np.frombuffer(starts, dtype=np.int64).reshape(-1, 3)
    write_npy(folder / OFFSETS_FILE, table.shape, [table])
    return len(table) - 1


class PassageStore:
    """Returns passages by row, their position in the corpus. Safe under threads."""

    def __init__(self, folder: Path):
        self._path = folder / TEXT_FILE
        self._starts = read_npy(folder / OFFSETS_FILE, np.dtype(np.int64), columns=3)
        try:
            with open(self._path, "rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # an empty file cannot be mapped
            raise self._damaged(str(error)) from error
        if self._starts[-1].tolist() != [len(self._bytes)] * 3:
            raise self._damaged("its size is not what it should be")

    def _damaged(self, why: str) -> UserError:
        return UserError(f"{self._path} is damaged ({why}): rebuild the index with overwrite.")

    def __len__(self) -> int:
        return len(self._starts) - 1

    def sizes(self) -> NDArray[np.int64]:
        """Return the bytes of id, title and text of all passages."""
        return np.diff(self._starts[:, 0])

    def records(self, start: int = 0, stop: int | None = None, block: int = 1024) -> Iterator[dict[str, str]]:
        """Yield title and text of the passages in rows `start` to `stop` (exclusive; None: to the end) in order."""
        stop = len(self) if stop is None else stop
        for first in range(start, stop, block):
            rows = np.arange(first, min(first + block, stop))
            for passage in self.passages(rows, np.zeros(len(rows))):
                yield {"title": passage.title, "text": passage.text}

    def missing(self, ids: Iterable[str], block: int = 1 << 16) -> set[str]:
        """Return those of `ids` that no passage has."""
        wanted = set(ids)
        return wanted - self.rows_of(wanted, block).keys()

    def rows_of(self, ids: Iterable[str], block: int = 1 << 16) -> dict[str, int]:
        """Return the row of each of `ids` that a passage has; titles and texts are not read (0.3 s per million)."""
        wanted = {passage_id.encode("utf-8", "replace"): passage_id for passage_id in ids}
        lengths = np.unique([len(name) for name in wanted])
        found: dict[str, int] = {}
        for first in range(0, len(self), block):
            if not wanted:
                break
            starts = self._starts[first : min(first + block, len(self)), :2]
            rows = np.flatnonzero(np.isin(starts[:, 1] - starts[:, 0], lengths))
            for row, (begin, end) in zip((rows + first).tolist(), starts[rows].tolist(), strict=True):
                if (name := wanted.pop(self._bytes[begin:end], None)) is not None:
                    found[name] = row
        return found

    def passages(self, rows: NDArray[np.int64], scores: NDArray[np.float64]) -> list[Passage]:
        """Return the passages at `rows`, each with its score, in the order of `rows`."""
        starts, ends = self._starts[rows].tolist(), self._starts[rows + 1, 0].tolist()
        records = []
        for (begin, title, text), end, score in zip(starts, ends, scores.tolist(), strict=True):
            raw = self._bytes[begin : end - 1]
            parts: Any = raw.decode() if raw.isascii() else raw  # one decoding for three parts if bytes are characters
            fields = parts[: title - begin], parts[title - begin : text - begin], parts[text - begin :]
            try:
                name, heading, body = fields if parts is not raw else (field.decode() for field in fields)
            except UnicodeDecodeError as error:
                raise self._damaged(str(error)) from error
            records.append({"id": name, "title": heading, "text": body, "score": score})
        try:
            return _PASSAGES.validate_python(records)
        except ValidationError as error:
            raise self._damaged(first_problem(error)) from error
