"""The passages of an index, read one at a time from memory-mapped files, in constant memory.

`passages.txt` contains id, title and text of all passages, concatenated, in UTF-8, with a line feed after each text;
`passages.offsets.npy` contains the offset of each of the three. Reading takes a third of the time of parsing JSON.
If passages have other keys (source, page, url ...), `passages.keys.jsonl` contains a JSON object for each of these
passages, and `passages.keys.npy` where the line of each passage starts; they are read for returned passages only.
`passages.ids.npy` has a hash of each id and its row, in the order of the hashes, so that an id is found without reading
the others.
"""

import contextlib
import hashlib
import json
import mmap
import struct
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from corpora.retrievers.arrays import read_npy, write_npy
from signatures.common.errors import UserError, first_problem, one_line
from signatures.common.files import atomic_write
from signatures.common.strict_json import parse_strict_json
from signatures.types import Passage, make_passage

TEXT_FILE = "passages.txt"
OFFSETS_FILE = "passages.offsets.npy"
_BLOCK = 1024  # passages read at a time
KEYS_FILE, KEYS_OFFSETS_FILE = "passages.keys.jsonl", "passages.keys.npy"
IDS_FILE = "passages.ids.npy"
_PASSAGES = TypeAdapter(list[Passage])  # validates a list at half the cost of one call per passage


class Stored(NamedTuple):
    """A passage as the files have it, in UTF-8; `keys` is a JSON object, or empty."""

    id: bytes
    title: bytes
    text: bytes
    keys: bytes


def stored(passage: Passage) -> Stored:
    """Return what is stored of a passage.

    Raises:
        UserError: Its other keys have values that are no plain JSON, such as NaN or nesting without end.
    """
    name, title, text = (part.encode("utf-8", "replace") for part in (passage.id, passage.title, passage.text))
    if not passage.metadata:
        return Stored(name, title, text, b"")
    try:
        dumped = json.dumps(passage.metadata, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        keys = dumped.encode("utf-8", "replace")
        parse_strict_json(keys)
    except (ValueError, TypeError, RecursionError) as error:
        raise UserError(
            f"Passage {passage.id[:60]!r}: its other keys cannot be stored ({one_line(error, 200)}): correct or remove "
            "them."
        ) from error
    return Stored(name, title, text, keys)


def content_hash(passages: Iterable[Stored]) -> str:
    """Return the hexadecimal SHA-256 of passages with their keys, in order; not of their sentences."""
    digest = hashlib.sha256()
    for passage in passages:
        digest.update(struct.pack("<4q", *map(len, passage)) + b"".join(passage))
    return digest.hexdigest()


def write_store(folder: Path, passages: Iterable[Passage], advance: Callable[[int], object] = lambda _: None) -> int:
    """Write `passages` into `folder`; see `write_stored`.

    Raises:
        UserError: See `stored`.
    """
    return write_stored(folder, map(stored, passages), advance)


def write_stored(folder: Path, passages: Iterable[Stored], advance: Callable[[int], object] = lambda _: None) -> int:
    """Write id, title, text and other keys of `passages` into `folder`; return the number of passages.

    All files are complete or absent; the offsets are written last, so with them the store is complete.

    Args:
        folder: Of the files.
        passages: At least one, with unique ids (`read_passages` ensures both).
        advance: Called with 1 for each passage.
    """
    starts, key_starts, hashes = array("q"), array("q"), array("q")
    end = keys_end = 0
    for name in (KEYS_FILE, KEYS_OFFSETS_FILE):
        (folder / name).unlink(missing_ok=True)
    with contextlib.ExitStack() as files:
        file = files.enter_context(atomic_write(folder / TEXT_FILE, "wb"))
        keys_file = None
        for passage in passages:
            for part in (passage.id, passage.title, passage.text + b"\n"):
                starts.append(end)
                end += file.write(part)
            key_starts.append(keys_end)
            hashes.append(_id_hash(passage.id))
            if passage.keys:
                keys_file = keys_file or files.enter_context(atomic_write(folder / KEYS_FILE, "wb"))
                keys_end += keys_file.write(passage.keys + b"\n")
            advance(1)
    if keys_end:
        key_starts.append(keys_end)
        write_npy(folder / KEYS_OFFSETS_FILE, (len(key_starts), 1), [np.frombuffer(key_starts, np.int64)])
    of_ids = np.frombuffer(hashes, np.int64)
    order = np.argsort(of_ids, kind="stable").astype(np.int64)
    write_npy(folder / IDS_FILE, (2, len(order)), [of_ids[order], order])
    starts.extend([end] * 3)
    table = np.frombuffer(starts, dtype=np.int64).reshape(-1, 3)
    write_npy(folder / OFFSETS_FILE, table.shape, [table])
    return len(table) - 1


def _id_hash(name: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little", signed=True)


def _damaged(path: Path, why: str) -> UserError:
    return UserError(f"{path} is damaged ({why}): rebuild the index with overwrite.")


def _mapped(path: Path, size: int) -> mmap.mmap:
    """Return the bytes of a file, mapped, which must be `size`."""
    try:
        with open(path, "rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        raise _damaged(path, str(error)) from error
    if len(content) != size:
        raise _damaged(path, "its size is not what it should be")
    return content


class _Keys:
    """The other keys of passages, by row."""

    def __init__(self, folder: Path, passages: int):
        self._path = folder / KEYS_FILE
        starts = read_npy(folder / KEYS_OFFSETS_FILE, np.dtype(np.int64), columns=1, rows=passages + 1)
        self._starts = starts[:, 0]
        self._bytes = _mapped(self._path, int(self._starts[-1]))

    def raw(self, rows: NDArray[np.int64]) -> list[bytes]:
        """Return the JSON of the passages at `rows`; empty for those without other keys."""
        begins, ends = self._starts[rows], self._starts[rows + 1]
        if (begins < 0).any() or (begins > ends).any():
            raise _damaged(self._path, "a line starts outside the file")
        places = zip(begins.tolist(), ends.tolist(), strict=True)
        return [self._bytes[begin : max(begin, end - 1)] for begin, end in places]

    def parsed(self, raw: bytes) -> dict[str, Any]:
        """Return the keys in a JSON text."""
        try:
            keys = parse_strict_json(raw)
            if not isinstance(keys, dict) or keys.keys() & Passage.model_fields.keys():
                raise ValueError("a line is not an object of other keys")
        except ValueError as error:
            raise _damaged(self._path, one_line(error, 200)) from error
        return keys


class _Ids:
    """The rows of ids."""

    def __init__(self, folder: Path, passages: int):
        self._path = folder / IDS_FILE
        self._hashes, self._rows = read_npy(self._path, np.dtype(np.int64), columns=passages, rows=2)

    def rows(self, names: Sequence[bytes]) -> Iterator[tuple[bytes, int]]:
        """Yield ids with the rows whose id has the same hash: hardly ever others than its own."""
        sought = np.array([_id_hash(name) for name in names], dtype=np.int64)
        firsts, ends = (np.searchsorted(self._hashes, sought, side) for side in ("left", "right"))
        for place in np.flatnonzero(firsts < ends).tolist():
            for row in self._rows[firsts[place] : ends[place]].tolist():
                if not 0 <= row < len(self._rows):
                    raise _damaged(self._path, "a row is outside the corpus")
                yield names[place], row


class PassageStore:
    """Returns passages by row, their position in the corpus. Safe under threads.

    Args:
        folder: Written by `write_store`.
        keys: Return other keys if there are some; False ignores their files.
        ids: Look ids up in their file, which must be there; False reads the ids of all passages instead.

    Raises:
        UserError: A file is damaged.
    """

    def __init__(self, folder: Path, *, keys: bool = True, ids: bool = False):
        self._path = folder / TEXT_FILE
        self._starts = read_npy(folder / OFFSETS_FILE, np.dtype(np.int64), columns=3)
        last = self._starts[-1].tolist()
        self._bytes = _mapped(self._path, last[0] if last == [last[0]] * 3 else -1)
        has_keys = keys and ((folder / KEYS_FILE).exists() or (folder / KEYS_OFFSETS_FILE).exists())
        self._keys = _Keys(folder, len(self)) if has_keys else None
        self._ids = _Ids(folder, len(self)) if ids else None

    @classmethod
    def listed(cls, folder: Path, files: Collection[str]) -> Self:
        """Return the store of an index, without what its manifest does not list: older ones have no file of ids."""
        return cls(folder, keys=KEYS_FILE in files, ids=IDS_FILE in files)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def sizes(self) -> NDArray[np.int64]:
        """Return the bytes of id, title and text of all passages."""
        return np.diff(self._starts[:, 0])

    def records(self, rows: NDArray[np.int64] | None = None) -> Iterator[dict[str, str]]:
        """Yield title and text of the passages at `rows`, by default of all, in order."""
        rows = np.arange(len(self)) if rows is None else rows
        for first in range(0, len(rows), _BLOCK):
            chosen = rows[first : first + _BLOCK]
            for fields in self._fields(chosen, np.zeros(len(chosen))):
                yield {"title": fields["title"], "text": fields["text"]}

    def stored(self, rows: NDArray[np.int64]) -> Iterator[Stored]:
        """Yield the passages at `rows` as the files have them."""
        for first in range(0, len(rows), _BLOCK):
            chosen = rows[first : first + _BLOCK]
            keys = [b""] * len(chosen) if self._keys is None else self._keys.raw(chosen)
            for (begin, title, text), end, own in zip(*self._places(chosen), keys, strict=True):
                raw = self._bytes
                yield Stored(raw[begin:title], raw[title:text], raw[text : end - 1], own)

    def missing(self, ids: Iterable[str], block: int = 1 << 16) -> set[str]:
        """Return those of `ids` that no passage has."""
        wanted = set(ids)
        return wanted - self.rows_of(wanted, block).keys()

    def rows_of(self, ids: Iterable[str], block: int = 1 << 16) -> dict[str, int]:
        """Return the row of each of `ids` that a passage has.

        Without the file of ids those of all passages are read, but no titles and texts (0.3 s per million).
        """
        wanted = {passage_id.encode("utf-8", "replace"): passage_id for passage_id in ids}
        if self._ids is not None:
            return {wanted[name]: row for name, row in self._ids.rows(list(wanted)) if self._id(row) == name}
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

    def _id(self, row: int) -> bytes:
        begin, end = self._starts[row, :2].tolist()
        return self._bytes[begin:end]

    def passages(self, rows: NDArray[np.int64], scores: NDArray[np.float64]) -> list[Passage]:
        """Return the passages at `rows`, each with its score, in the order of `rows`.

        Raises:
            UserError: The files are damaged.
        """
        fields = self._fields(rows, scores)
        try:
            if self._keys is None:
                return _PASSAGES.validate_python(fields)
            parsed = self._keys.parsed
            found = zip(fields, self._keys.raw(rows), strict=True)
            return [make_passage({**parsed(raw), **record} if raw else record) for record, raw in found]
        except ValidationError as error:
            raise _damaged(self._path, first_problem(error)) from error

    def _places(self, rows: NDArray[np.int64]) -> tuple[list[list[int]], list[int]]:
        return self._starts[rows].tolist(), self._starts[rows + 1, 0].tolist()

    def _fields(self, rows: NDArray[np.int64], scores: NDArray[np.float64]) -> list[dict[str, Any]]:
        records = []
        for (begin, title, text), end, score in zip(*self._places(rows), scores.tolist(), strict=True):
            raw = self._bytes[begin : end - 1]
            parts: Any = raw.decode() if raw.isascii() else raw  # one decoding for three parts if bytes are characters
            fields = parts[: title - begin], parts[title - begin : text - begin], parts[text - begin :]
            try:
                name, heading, body = fields if parts is not raw else (field.decode() for field in fields)
            except UnicodeDecodeError as error:
                raise _damaged(self._path, str(error)) from error
            records.append({"id": name, "title": heading, "text": body, "score": score})
        return records
