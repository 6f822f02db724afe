"""What is known of one question: every LM call and retrieval that its runs have made, so that none is made twice.

It is kept in a file of JSON lines, each compressed by itself (a member of a gzip file): append-only, and `zcat` reads
it. A process killed while it writes leaves at most one incomplete member at the end, which readers ignore and the next
writer removes. Any other damage is found by the checksums of gzip.
"""

import contextlib
import contextvars
import copy
import gzip
import json
import math
import threading
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dspy

from programs.lms.calls.metered import Reply, calls_recorded
from programs.parts.meter import Meter
from signatures.common.context import set_within
from signatures.common.errors import UserError
from signatures.common.per_process import Uncopied
from signatures.common.strict_json import parse_strict_json
from signatures.common.work import AppendedFile, json_line
from signatures.types import Passage, make_passage, plain_metadata

Json = dict[str, Any]
_Search = tuple[str, int]  # query and k


class Memory:
    """The calls and retrievals of one question; safe under threads.

    Args:
        kept: What `news` returned in earlier sessions.
    """

    def __init__(self, kept: Sequence[Json] = ()):
        self._lock = threading.Lock()
        self._replies: dict[str, str] = {}  # as JSON, so that what is read cannot change it
        self._found: dict[_Search, list[Passage]] = {}
        self._new_replies: dict[str, str] = {}
        self._new_found: dict[_Search, list[Passage]] = {}
        for each in kept:
            self._replies |= {key: json.dumps(reply) for key, reply in each["calls"].items()}
            for search in each["retrievals"]:
                texts = each["passages"]
                self._found[search["query"], search["k"]] = [
                    _passage(id, *texts[id], score=score) for id, score in search["passages"]
                ]

    def __len__(self) -> int:
        """Return the number of calls and retrievals known."""
        with self._lock:
            return len(self._replies) + len(self._found)

    def reply(self, key: str) -> Reply | None:
        """Return the reply to a call; None if it was never made."""
        with self._lock:
            text = self._replies.get(key)
        return None if text is None else json.loads(text)

    def add(self, key: str, reply: Reply) -> Reply:
        """Keep the reply to a call and return it; the earlier one if there is one. What is not JSON is not kept."""
        try:
            text = json.dumps(reply, allow_nan=False)
        except (TypeError, ValueError):
            return reply
        with self._lock:
            if key in self._replies:
                return dict(json.loads(self._replies[key]))
            self._replies[key] = self._new_replies[key] = text
        return reply

    def found(self, query: str, k: int) -> list[Passage] | None:
        """Return the passages of a search; None if it was never made."""
        with self._lock:
            found = self._found.get((query, k))
        return None if found is None else list(found)

    def add_found(self, query: str, k: int, passages: Sequence[Passage]) -> None:
        """Keep the passages of a search."""
        with self._lock:
            self._found[query, k] = self._new_found[query, k] = list(passages)

    def news(self) -> Json | None:
        """Return what was added since the last time, as JSON; None if that is nothing."""
        with self._lock:
            replies, found = self._new_replies, self._new_found
            self._new_replies, self._new_found = {}, {}
        if not replies and not found:
            return None
        texts = {each.id: _texts(each) for passages in found.values() for each in passages}
        searches = [
            {"query": query, "k": k, "passages": [[each.id, each.score] for each in passages]}
            for (query, k), passages in found.items()
        ]
        return {
            "calls": {key: json.loads(text) for key, text in replies.items()},
            "retrievals": searches,
            "passages": texts,
        }


def _texts(passage: Passage) -> list[Any]:
    """Return title and text of a passage, and its other keys if it has some."""
    return [passage.title, passage.text, *([plain_metadata(passage)] if passage.metadata else [])]


def _passage(id: str, title: str, text: str, keys: Json | None = None, *, score: float | None) -> Passage:
    return make_passage({**(keys or {}), "id": id, "title": title, "text": text, "score": score})


_memory: contextvars.ContextVar[Memory | None] = contextvars.ContextVar("verihop_memory", default=None)


@contextlib.contextmanager
def remembering(memory: Memory, *, as_sent: bool = True) -> Iterator[Meter]:
    """Answer LM calls and searches in the block from `memory`, and add what it does not know.

    `as_sent` and what it yields are those of `programs.lms.calls.metered.calls_recorded`.
    """
    with set_within(_memory, memory), calls_recorded(memory, as_sent=as_sent) as known:
        yield known


class RememberingRetriever(Uncopied):
    """A retriever that answers from the memory of the running context, and adds to it; without one it only searches."""

    def __init__(self, retriever: Any):
        self._retriever = retriever

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # of copying and the like, which must not find those of the retriever
            raise AttributeError(name)
        return getattr(self._retriever, name)

    def __call__(self, query: str, k: int) -> list[Passage]:
        """Return the first `k` passages for a query."""
        memory = _memory.get()
        if memory is None:
            return list(self._retriever(query, k))
        known = memory.found(query, k)
        if known is None:
            known = list(self._retriever(query, k))
            memory.add_found(query, k, known)
        return known

    def many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the first `k` passages for each query; those that are not known are searched for at once."""
        memory = _memory.get()
        if memory is None:
            return [list(found) for found in self._retriever.many(queries, k)]
        new = [query for query in dict.fromkeys(queries) if memory.found(query, k) is None]
        if new:
            for query, found in zip(new, self._retriever.many(new, k), strict=True):
                memory.add_found(query, k, found)
        return [memory.found(query, k) or [] for query in queries]


def with_memory(program: dspy.Module) -> dspy.Module:
    """Return a copy of a program, and of those it contains, whose searches are remembered."""
    changed = copy.deepcopy(program)
    wrapped: dict[int, RememberingRetriever] = {}
    for _, module in changed.named_sub_modules():
        retriever = vars(module).get("retrieve")  # of a cascade it is that of a part
        if retriever is not None and not isinstance(retriever, RememberingRetriever):
            module.retrieve = wrapped.setdefault(id(retriever), RememberingRetriever(retriever))
    return changed


Place = tuple[int, int]  # start and end of a member, in bytes
_GZIP = 31  # of zlib's window bits: 15 with the header of gzip
_CHUNK = 1 << 16  # bytes read at a time
_MOST_BYTES = 64 << 20  # of one member, decompressed; RetroRAG's 200 replies with log-probabilities take 1 MB


def read_members(path: Path) -> Iterator[Any]:
    """Yield the JSON values of the complete members, in order; nothing if there is no file.

    Raises:
        UserError: A member is damaged; the message names it.
    """
    for value, _ in placed_members(path):
        yield value


def placed_members(path: Path) -> Iterator[tuple[Any, Place]]:
    """Yield the same values, each with its place in the file."""
    start = 0
    for number, raw, end in _members(path):
        try:
            yield parse_strict_json(raw), (start, end)
        except ValueError as error:
            raise _damaged(path, number, error) from None
        start = end


def read_place(path: Path, place: Place) -> Any:
    """Return the value at a place in the file, which this process has written or read before."""
    start, end = place
    with open(path, "rb") as file:
        file.seek(start)
        return json.loads(gzip.decompress(file.read(end - start)))


def _members(path: Path) -> Iterator[tuple[int, bytes, int]]:
    """Yield number from 1, content, and end in the file, of each complete member."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).") from None
    start = number = 0
    while start < len(content):
        number += 1
        reader, raw, size = zlib.decompressobj(_GZIP), list[bytes](), 0
        while not reader.eof and start < len(content):
            chunk = content[start : start + _CHUNK]
            try:
                raw.append(reader.decompress(chunk, _MOST_BYTES - size + 1))
            except zlib.error as error:
                raise _damaged(path, number, error) from None
            size += len(raw[-1])
            if size > _MOST_BYTES:
                raise _damaged(path, number, f"larger than {_MOST_BYTES:,} bytes")
            start += len(chunk) - len(reader.unused_data)
        if not reader.eof:
            return  # incomplete: the process that wrote it was killed
        yield number, b"".join(raw), start


def _damaged(path: Path, number: int, reason: object) -> UserError:
    return UserError(f"{path} is damaged in its member {number} ({reason}). Record the run again.")


class MemberLog(AppendedFile):
    """Appends JSON values to such a file. The disk takes them at the end: what is lost is recorded again."""

    def __init__(self, path: Path):
        super().__init__(path, sync_every=math.inf)

    def complete_bytes(self) -> int:
        """Return how many bytes are complete members."""
        return max((end for _, _, end in _members(self.path)), default=0)

    def append(self, value: Any) -> Place:
        """Write one value, with keys hidden, and return its place; raises as `write` does."""
        return self.write(gzip.compress(json_line(value, allow_nan=False), mtime=0))
