"""The cache of LM replies, a bounded SQLite file, and which replies it keeps: those that were parsed.

An adapter wraps its call in `cached_if_parsed`: the reply is cached after it was parsed, and a cached reply that cannot
be parsed is removed, so that a bad reply is asked again. Replies outside of such a block (an optimizer that calls an LM
by itself) are cached if they have text. A reply that the provider's filter ended is never cached.

One file and one connection serve all threads of a process, so that the number of open files does not grow with the
threads. Several processes may use the file at a time (write-ahead log, https://sqlite.org/wal.html).
"""

import contextlib
import contextvars
import json
import os
import re
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import dspy
from dspy.clients.cache import Cache
from dspy.clients.call_result import CallResult, usage_dict
from dspy.clients.execution import IGNORED_CACHE_KEYS, PreparedCall
from dspy.utils.exceptions import AdapterParseError
from filelock import FileLock

from programs.lms.tracing.calls import finish_reasons
from programs.parts.probability import yes_share
from signatures.common.context import set_within
from signatures.common.errors import UserError, UserNotice, undone_by_error
from signatures.common.files import cache_dir

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

    If the file is damaged, full, locked or cannot be written, one notice is issued, and the store continues without
    what fails: without new entries, or empty.

    Args:
        path: The file; created with its folder when it is first used.
        max_bytes: Size of the file at most, at least 100,000; the write-ahead log may take a few MB more.
        clock: Seconds since a fixed point; decides which entries are old.
        what: The values, in that notice.
    """

    def __init__(self, path: Path, *, max_bytes: int, clock: Callable[[], float] = time.time, what: str = "LM replies"):
        self.path, self.max_bytes, self._clock, self._what = path, max_bytes, clock, what
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
                f"{self._what} cannot be cached in {self.path} ({cause}): free space, let this user write it, "
                "or delete it if it is damaged."
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
            with undone_by_error(connection.close):
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")  # a killed process loses nothing; a power cut may
                connection.execute("PRAGMA trusted_schema = OFF")
                for statement in _TABLES:
                    connection.execute(statement)
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


_ADDRESS = re.compile(r"(?:BASE|URL|ENDPOINT|HOST)(?:$|_BEDROCK)")  # names of variables
_OF_ANY = "_API_BASE"  # the end of what LiteLLM calls them, after many a name that is not quite the provider's
_OTHER_WORDS = {"BEDROCK": "AWS", "SAGEMAKER": "AWS", "WATSONX": "WX"}  # in names of variables, by a word of a provider
FILTERED = "content_filter"  # finish reason of a reply that a filter of the provider ended


class ReplyCache(Cache):
    """DSPy's cache with a `ReplyStore` in place of its memory and its folder of pickles.

    The keys are DSPy's: model string, request and `rollout_id`.
    """

    def __init__(self, store: ReplyStore):
        super().__init__(enable_disk_cache=False, enable_memory_cache=False, disk_cache_dir=None)
        self.store = store

    def __contains__(self, key: str) -> bool:
        """Return whether there is a value for a key as `cache_key` returns it."""
        return self.store.get(key) is not None

    def get(self, request: dict[str, Any], ignored_args_for_cache_key: list[str] | None = None) -> Any:
        """Return the value of a request, None if there is none."""
        key = self._key(request, ignored_args_for_cache_key)
        return None if key is None else self.store.get(key)

    def put(
        self,
        request: dict[str, Any],
        value: Any,
        ignored_args_for_cache_key: list[str] | None = None,
        enable_memory_cache: bool = True,
    ) -> None:
        """Store a value that is JSON; others are not stored."""
        key = self._key(request, ignored_args_for_cache_key)
        if key is not None:
            self.store.put(key, value)

    def forget(self, request: dict[str, Any], ignored_args_for_cache_key: list[str] | None = None) -> None:
        """Remove the value of a request."""
        key = self._key(request, ignored_args_for_cache_key)
        if key is not None:
            self.store.delete(key)

    def _key(self, request: dict[str, Any], ignored: list[str] | None) -> str | None:
        try:
            return self.cache_key(request, ignored)
        except Exception:  # noqa: BLE001 - a request without a JSON form has no key, and orjson raises several types
            return None


class Unparsed:
    """The replies received in a block of `cached_if_parsed`, with their keys; a reply of None is cached already."""

    def __init__(self) -> None:
        self._replies: list[tuple[dict[str, Any], dict[str, Any] | None]] = []

    def add(self, key: dict[str, Any], reply: dict[str, Any] | None) -> None:
        """Hold a reply until the block ends."""
        self._replies.append((key, reply))

    def keep(self) -> None:
        """Cache the replies."""
        for key, reply in self._replies:
            if reply is not None:
                dspy.cache.put(key, reply, IGNORED_CACHE_KEYS)

    def drop(self) -> None:
        """Cache none of the replies, and remove those that were cached."""
        for key, reply in self._replies:
            if reply is None:
                _forget(key)
        self._replies.clear()


def _forget(key: dict[str, Any]) -> None:
    if isinstance(dspy.cache, ReplyCache):
        dspy.cache.forget(key, IGNORED_CACHE_KEYS)


_unparsed: contextvars.ContextVar[Unparsed | None] = contextvars.ContextVar("verihop_unparsed", default=None)


@contextlib.contextmanager
def cached_if_parsed() -> Iterator[Unparsed]:
    """Cache the replies received in the block when it ends; drop them if it raises AdapterParseError."""
    replies = Unparsed()
    try:
        with set_within(_unparsed, replies):
            yield replies
    except AdapterParseError:
        replies.drop()
        raise
    replies.keep()


def look_up(lm: dspy.LM, call: PreparedCall) -> tuple[CallResult, dict[str, Any]] | None:
    """Return the cached reply to a call, and the usage that it had; None if there is none that can be used.

    The usage of the reply itself is empty, since nothing was sent.
    """
    if not call.cache:
        return None
    key = key_of(lm, call)
    record = dspy.cache.get(key, IGNORED_CACHE_KEYS)
    if record is None:
        return None
    try:
        result = CallResult.load(record)
        usage = {**(record.get("usage") or usage_of(result))}
        result.cost = None if result.cost is None else float(result.cost)
    except Exception:  # noqa: BLE001 - whatever a damaged or foreign entry contains, the LM is asked
        result = None
    if result is None or _is_empty(result.outputs):
        _forget(key)
        return None
    if (pending := _unparsed.get()) is not None:
        pending.add(key, None)
    return result, usage


def keep(lm: dspy.LM, call: PreparedCall, result: CallResult) -> None:
    """Cache a reply, or hold it until it was parsed; an empty or filtered one is not cached."""
    if not call.cache or _is_empty(result.outputs) or FILTERED in finish_reasons(result):
        return
    if (pending := _unparsed.get()) is None:
        dspy.cache.put(key_of(lm, call), result.dump(), IGNORED_CACHE_KEYS)
    else:
        pending.add(key_of(lm, call), result.dump())


def usage_of(result: CallResult) -> dict[str, Any]:
    """Return the tokens that the responses of a result report."""
    usages = [usage_dict(response) for response in result.responses]
    names = ("prompt_tokens", "completion_tokens")
    return {name: sum(each.get(name) or 0 for each in usages) for name in names} if usages else {}


def key_of(lm: dspy.LM, call: PreparedCall) -> dict[str, Any]:
    """Return DSPy's key, with what else decides the reply.

    That is the server's dialect if the call sets reasoning, which decides how that is sent; and the address that
    variables such as `OPENAI_BASE_URL` give the LMs of a provider. The model string contains the address of a server.
    """
    reasoning = call.legacy.get("reasoning_effort") if call.request is None else call.request.config.reasoning
    dialect = getattr(lm.engine, "dialect_name", None)
    key = {**call.key(lm, False), **({"dialect": dialect} if reasoning and dialect else {})}
    if isinstance(lm.engine, str) and (elsewhere := _addresses_of(lm.model.partition("/")[0])):
        key["addresses"] = elsewhere  # a name that DSPy does not leave out of keys
    return key


def _addresses_of(provider: str) -> dict[str, str]:
    """Return the variables that may direct the calls of a provider's LMs to another host.

    Rather one too many, which costs a reply that was cached, than a reply of another host.
    """
    words = set(re.split("[_-]", provider.upper()))
    words |= {"LITELLM", *(other for word, other in _OTHER_WORDS.items() if word in words)}
    names = (name for name in sorted(os.environ) if _ADDRESS.search(name))
    return {n: os.environ[n] for n in names if n.endswith(_OF_ANY) or not words.isdisjoint(n.split("_"))}


def _is_empty(outputs: Sequence[Any]) -> bool:
    """Return whether any of the outputs has neither text nor anything else that can be read."""
    return not outputs or any(not _content(output) for output in outputs)


def _content(output: Any) -> Any:
    if not isinstance(output, dict):
        return output.strip() if isinstance(output, str) else output
    text, logprobs = output.get("text"), output.get("logprobs")
    if (text.strip() if isinstance(text, str) else text) or output.get("tool_calls"):
        return True
    return isinstance(logprobs, Mapping) and yes_share(logprobs.get("content")) is not None


def refusal_of(result: CallResult) -> str | None:
    """Return why all replies of a result are empty, if the LM declined or a filter ended each; else None."""
    replies = list(zip(_refusals(result), finish_reasons(result), strict=True))
    if any(map(_content, result.outputs)) or not all(words or reason == FILTERED for words, reason in replies):
        return None
    return next((words or "it ended the reply before its first word" for words, _ in replies), None)


def _refusals(result: CallResult) -> list[str]:
    """Return with what each reply of a result states that the LM declines, in OpenAI's field for that."""
    if result.responses:
        messages = [response.message for response in result.responses]
        return ["".join(part.text for part in message.parts if part.type == "refusal") for message in messages]
    choices = getattr(result.raw, "choices", None) or ()
    fields = [getattr(getattr(choice, "message", None), "provider_specific_fields", None) for choice in choices]
    return [(each or {}).get("refusal") or "" for each in fields]


REPLIES = "replies.sqlite"
REPLY_BYTES = 2_000_000_000  # of the file with LM replies, by default
FEWEST_BYTES = 1_000_000
_BYTES_VARIABLE = "VERIHOP_CACHE_BYTES"

_lock = threading.Lock()
_configured: tuple[Path, int] | None = None


def reply_cache_bytes() -> int:
    """Return the size of the reply cache at most: `VERIHOP_CACHE_BYTES` if set, else 2 GB.

    Raises:
        UserError: The variable is not a number of at least 1,000,000.
    """
    text = os.environ.get(_BYTES_VARIABLE)
    if not text:
        return REPLY_BYTES
    try:
        limit = int(float(text))
    except (ValueError, OverflowError):
        limit = 0
    if limit < FEWEST_BYTES:
        raise UserError(f"{_BYTES_VARIABLE} must be a number of bytes of at least {FEWEST_BYTES:,}, got {text!r}.")
    return limit


def use_reply_cache() -> None:
    """Point DSPy's cache at the file with LM replies in the cache folder; repeated calls change nothing.

    The file contains JSON only, so that nothing in a shared folder is executed.

    Raises:
        UserError: `VERIHOP_CACHE_BYTES` is not a size.
    """
    global _configured
    wanted = cache_dir() / REPLIES, reply_cache_bytes()
    with _lock:
        if wanted == _configured:
            return
        dspy.cache = ReplyCache(ReplyStore(wanted[0], max_bytes=wanted[1]))
        _configured = wanted
