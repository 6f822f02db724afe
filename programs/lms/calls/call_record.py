"""Record the LM's replies of one question, and answer the same calls from the record.

Unlike the cache of replies, a record holds every reply, also one that could not be parsed, and belongs to one question:
a program that is run again on the same record takes the same course. A reply from the record is not paid again.
"""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import dspy
from dspy.clients.cache import Cache
from dspy.clients.call_result import CallResult
from dspy.clients.execution import IGNORED_CACHE_KEYS, PreparedCall

from programs.lms.calls.reply_cache import key_of
from programs.parts.meter import Meter, record

KEY_LENGTH = 32  # hexadecimal digits of a call's key that are kept

Reply = dict[str, Any]  # JSON
_keys = Cache(enable_disk_cache=False, enable_memory_cache=False, disk_cache_dir=None)


class CallRecord(Protocol):
    """The replies of one question; safe under threads."""

    def reply(self, key: str) -> Reply | None:
        """Return the reply to a call; None if it was never made."""
        ...

    def add(self, key: str, reply: Reply) -> Reply:
        """Keep the reply to a call and return it; the earlier one if there is one."""
        ...


class _Recording(NamedTuple):
    """A record while calls are answered from it, and what it answered."""

    record: CallRecord
    as_sent: bool
    known: Meter


_recording: contextvars.ContextVar[_Recording | None] = contextvars.ContextVar("verihop_call_record", default=None)


@contextlib.contextmanager
def calls_recorded(record: CallRecord | None, *, as_sent: bool = True) -> Iterator[Meter]:
    """Answer calls in the block from the record, and add to it what it does not know; None records nothing.

    The meter that it yields counts the calls that the record answered and counted as sent.

    Args:
        record: Of the question.
        as_sent: Whether a reply from the record counts as if it had been sent, so that the costs of a question do not
            depend on what was asked before; else as one from the cache.
    """
    known = Meter()
    token = _recording.set(None if record is None else _Recording(record, as_sent, known))
    try:
        yield known
    finally:
        _recording.reset(token)


class Recorded:
    """A call while it is made: what the record says, if there is one.

    Args:
        lm: The LM.
        call: Its call.
    """

    def __init__(self, lm: dspy.LM, call: PreparedCall):
        self._recording = _recording.get()
        self._key = call_key(lm, call) if self._recording is not None else None

    def look_up(self) -> tuple[CallResult, dict[str, Any]] | None:
        """Return the recorded result and its usage; None if there is none."""
        if self._recording is None or self._key is None:
            return None
        reply = self._recording.record.reply(self._key)
        return None if reply is None else _loaded(reply)

    @property
    def as_sent(self) -> bool:
        """Whether a recorded reply counts as if it had been sent; else as one from the cache."""
        return self._recording is None or self._recording.as_sent

    def count(self, **counts: float) -> None:
        """Count what a recorded reply cost that counts as sent."""
        if self._recording is not None:
            self._recording.known.add(**counts)
        record(**counts)

    def keep(self, result: CallResult, usage: dict[str, Any]) -> CallResult:
        """Record the result of a call with its usage, also if it was cached; return what the question goes on with."""
        if self._recording is None or self._key is None:
            return result
        reply = {**result.dump(), "usage": usage}
        kept = self._recording.record.add(self._key, reply)
        return result if kept is reply else _loaded(kept)[0]


def call_key(lm: dspy.LM, call: PreparedCall) -> str | None:
    """Return the call's key; None, so that it is not recorded, if it has no JSON form."""
    try:
        return str(_keys.cache_key(key_of(lm, call), IGNORED_CACHE_KEYS))[:KEY_LENGTH]
    except Exception:  # noqa: BLE001 - orjson raises several types
        return None


def _loaded(reply: Reply) -> tuple[CallResult, dict[str, Any]]:
    return CallResult.load(reply), reply.get("usage") or {}
