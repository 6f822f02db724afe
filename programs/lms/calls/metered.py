"""The LM class of the suite: every call is counted, checked against the budget, and retried a limited number of times.

Calls are counted only here (`programs.parts.meter`), for all engines. Each attempt is a call, even if it fails. An
engine without cost has `free = True`; for any other, a budget in usd needs a known price.

The replies of one question can be recorded, and the same calls be answered from the record. Unlike the cache, a record
holds every reply, also one that could not be parsed: a program that is run again on it takes the same course. A reply
from the record is not paid again.
"""

import asyncio
import contextlib
import contextvars
import math
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, NoReturn, Protocol

import dspy
from dspy.clients.cache import Cache
from dspy.clients.call_result import CallResult
from dspy.clients.execution import IGNORED_CACHE_KEYS, PreparedCall, execute, finalize, prepare
from dspy.lm15 import Request, Response
from dspy.utils import exceptions as errors
from dspy.utils.callback import with_callbacks

from programs.lms.calls import reply_cache
from programs.lms.calls.budget import (
    Budget,
    BudgetExceeded,
    Reservation,
    checks_of,
    prompt_tokens_at_most,
    reply_tokens_at_most,
    reserve_in_both,
    tokens_at_most,
)
from programs.lms.calls.control import CLOCK, call_within, checked_calls, current_control
from programs.lms.calls.refusals import understood
from programs.lms.calls.reply_cache import FILTERED, key_of, refusal_of
from programs.lms.calls.retry import Attempts, ConcurrencyLimit, UnreadableReply, check_readable, shared_limit
from programs.lms.calls.transport import Transport
from programs.lms.tracing.calls import finish_reasons, observed
from programs.parts.meter import Meter, record
from programs.parts.replies.sources import add_sources, sources_of
from signatures.common.context import set_within
from signatures.common.errors import UserError, one_line, with_causes
from signatures.common.per_process import Uncopied
from signatures.common.secrets import redact, redacted

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


_STEP = 1_000_000  # far above the rollout ids that programs use

_repeat: contextvars.ContextVar[int] = contextvars.ContextVar("verihop_repeat", default=1)


def fresh_samples(repeat: int) -> contextlib.AbstractContextManager[object]:
    """Use new samples in this repeat, counted from 1, for every LM call in the block.

    The samples of the first repeat are those of a run without repeats. Calls at temperature 0 do not change.
    """
    return set_within(_repeat, repeat)


def rollout_in_repeat(own: int | None, temperature: float | None) -> int | None:
    """Return the rollout id of a call in the current repeat, given the one that the program set."""
    repeat = _repeat.get()
    return own if repeat == 1 or temperature == 0 else (repeat - 1) * _STEP + (own or 0)


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
    with set_within(_recording, None if record is None else _Recording(record, as_sent, known)):
        yield known


class Recorded:
    """A call while it is made: what the record says, if there is one."""

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
        """Record the result of a call with its usage, also if it was cached; return what the program gets."""
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


def without_keys(result: CallResult) -> CallResult:
    """Return a result with keys hidden in its replies, ids and raw data; the result itself if it contains none."""
    dumped = result.dump()
    clean = redacted(dumped)
    if clean is dumped:
        return result
    hidden = CallResult.load(clean)
    hidden.usage, hidden.cache_hit = result.usage, result.cache_hit
    return hidden


def hide_keys_in(error: BaseException | None) -> None:
    """Hide keys in the texts of an error and of its causes, which a traceback prints."""
    for each in with_causes(error):
        each.args = tuple(redacted(part) for part in each.args)
        for name, value in list(vars(each).items()):  # notes, too
            if (clean := redacted(value)) is not value:
                setattr(each, name, clean)


class Loading:
    """Loads what the calls in a block are sent to, before the first one and outside of its limits of time.

    `seconds` is how long that took.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._loaded: list[Any] = []
        self._lock = threading.Lock()

    def load(self, engine: Any) -> None:
        """Load an engine that runs in this process, once; threads wait for the one that does."""
        with self._lock:
            if any(engine is each for each in self._loaded):
                return
            started = time.perf_counter()
            if callable(load := getattr(engine, "load", None)):
                load()
            self._loaded.append(engine)
            self.seconds += time.perf_counter() - started


_loading: contextvars.ContextVar[Loading | None] = contextvars.ContextVar("verihop_loading", default=None)


@contextlib.contextmanager
def lazy_loading() -> Iterator[Loading]:
    """Load an LM in this process when a call in the block is sent, which takes seconds: cached replies need none."""
    loading = Loading()
    with set_within(_loading, loading):
        yield loading


_ONE_WORD = 8  # tokens; `programs.lms.adapter` and `programs.parts.probability` allow at most 4


class LMUnavailable(UserError):
    """After all retries, the LM cannot be reached, refuses, or replies in another format.

    Args:
        message: What the user can do.
        model: The LM's model string; None if unknown.
        retry_after: Seconds for which its server asks not to be called; None if it does not say.
    """

    def __init__(self, message: str, model: str | None = None, retry_after: float | None = None):
        super().__init__(message)
        self.model, self.retry_after = model, retry_after


class LMFiltered(errors.LMInvalidRequestError):
    """A content filter of the LM's server refuses a prompt, or a whole reply; that of others may well pass."""


class AsyncEngine(Uncopied):
    """Wraps a blocking engine for async callers: each call waits in a separate thread."""

    def __init__(self, engine: Any):
        self.engine = engine

    async def complete(self, request: Request) -> Response:
        """Answer one request with the wrapped engine."""
        return await asyncio.to_thread(self.engine.complete, request)

    async def aclose(self) -> None:
        """Do nothing: the wrapped engine has another owner."""


class MeteredLM(dspy.LM):
    """A `dspy.LM` that counts its calls and enforces a budget; `copy()` and `deepcopy` share the budget.

    A `rollout_id` is the sampling seed of an in-process engine, so that samples differ and a run can be repeated.

    An engine that ends its calls itself, at the timeout of the transport and by `programs.lms.calls.control`, has
    `abortable = True`; calls of others wait in a thread each, which is left alone when its time is over.

    Args:
        model: As for `dspy.LM`. With an `engine` it should contain a hash of the weights, as part of the cache key.
        budget: Limits, shared by all LMs that use it.
        transport: Retries, timeouts and concurrency limit of the calls; all LMs on one server share its limit.
        address: URL of the server, for error messages; None if the model string is enough.
        **kwargs: As for `dspy.LM`.

    Raises:
        BudgetExceeded: On a call that would exceed the budget.
        LMUnavailable: On a call that still fails after the retries.
        Stopped: On a call while the work is to stop (`programs.lms.calls.control`).
    """

    def __init__(
        self,
        model: str,
        *,
        budget: Budget | None = None,
        transport: Transport = Transport(),
        address: str | None = None,
        **kwargs: Any,
    ):
        super().__init__(model, num_retries=0, **kwargs)  # retries are ours: each one counts as a call
        self.budget = budget or Budget()
        self.address = address
        self.transport = transport
        self.clock = CLOCK
        self.remote = address is not None or isinstance(self.engine, str)
        server, most = address or model.partition("/")[0], transport.connections
        self.concurrency = shared_limit(server, most) if self.remote else ConcurrencyLimit(most)

    @with_callbacks
    def __call__(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        """Answer as `dspy.LM` does."""
        call = prepare(self, prompt, messages, self._seeded(prompt, kwargs))
        with observed(self, call) as replied:
            result = replied(self._answered(call))
        return finalize(self, call, result)

    def _answered(self, call: PreparedCall) -> CallResult:
        """Return the reply to a call from the record of the question, from the cache, or from the LM; counted."""
        recorded = Recorded(self, call)
        if found := recorded.look_up():
            result, usage = found
            if recorded.as_sent:
                recorded.count(calls=call.n, rounds=1, **_counts(usage, result.cost))
            else:
                _record_hit(call, usage, result.cost)
        else:
            result = recorded.keep(*self._asked(call))
        _record_cut(call, result)
        add_sources(partial(sources_of, result))
        return result

    async def acall(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        """Do the same asynchronously, in a thread."""
        return await asyncio.to_thread(self.__call__, prompt, messages=messages, **kwargs)

    def _asked(self, call: PreparedCall) -> tuple[CallResult, dict[str, Any]]:
        """Return the reply to a call from the cache, else from the LM, and its usage."""
        key = call_key(self, call) if self.budget.counts_replies else None
        if found := reply_cache.look_up(self, call):
            result, usage = found
            if key is not None:
                booking = self._cost(call, result, usage)
                self.budget.take_over(key, booking, calls=call.n, at_most=tokens_at_most(call))
            _record_hit(call, usage, result.cost)
            return found
        result = self._send(replace(call, cache=False))  # whether to cache the reply is decided when it is parsed
        if key is not None:
            self.budget.sent(key)  # before another thread can find the reply and count it as of other work
        reply_cache.keep(self, call, result)
        return result, result.usage

    def _cost(self, call: PreparedCall, result: CallResult, usage: Mapping[str, Any]) -> Reservation:
        """Return what a call costs; tokens that the LM does not report are estimated."""
        sent, written = usage.get("prompt_tokens"), usage.get("completion_tokens")
        tokens = (prompt_tokens_at_most(call) if sent is None else sent) + (
            reply_tokens_at_most(result) if written is None else written
        )
        return Reservation(tokens, 0.0 if getattr(self.engine, "free", False) else result.cost)

    def _seeded(self, prompt: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        merged = {**self.kwargs, **kwargs}
        rollout = rollout_in_repeat(merged.get("rollout_id"), merged.get("temperature"))
        if rollout != merged.get("rollout_id"):
            kwargs = {**kwargs, "rollout_id": rollout}
        if isinstance(self.engine, str) or isinstance(prompt, Request) or "request" in kwargs:
            return kwargs
        return {**kwargs, "seed": rollout} if rollout is not None and merged.get("seed") is None else kwargs

    def _send(self, call: PreparedCall) -> CallResult:
        """Send a call until it is answered, or has failed too often."""
        if (loading := _loading.get()) is not None:
            loading.load(self.engine)
        attempts = Attempts(
            self.transport, self.concurrency, clock=self.clock, remote=self.remote, check=checks_of(self.budget)
        )
        failed: errors.LMError | None = None
        while True:
            try:
                with attempts.permit(), reserve_in_both(self.budget, tokens_at_most(call), call.n) as booking:
                    record(calls=call.n, rounds=1)  # counted even if it fails
                    result = self._complete(call, booking)
                    record(**_counts(result.usage, result.cost))
                    cost = self._cost(call, result, result.usage)
                    booking.tokens, booking.usd = cost.tokens, cost.usd
                current_control().answered(self.model)
                if refusal := refusal_of(result):
                    raise LMFiltered(refusal, provider_code=FILTERED)
                return result
            except BudgetExceeded as error:
                if failed is None or not error.of_question:
                    raise
                self._give_up(failed)  # it is the LM that fails: the question would have fitted
            except errors.LMError as error:
                hide_keys_in(error)
                failed = error
                if not attempts.wait_after(error):
                    self._give_up(error)

    def _give_up(self, error: errors.LMError) -> NoReturn:
        told = self._explained(error)
        # What the user can mend needs no tracebacks of what it came from; it stays the context.
        raise told from (error if told is error or not isinstance(told, UserError) else None)

    def _complete(self, call: PreparedCall, booking: Reservation) -> CallResult:
        """Call the engine once, within the time limit."""
        check = checks_of(self.budget)
        try:
            if getattr(self.engine, "abortable", False):
                with checked_calls(check):
                    result = execute(self, call)
            else:
                seconds = self.transport.timeout if self.remote else math.inf
                result = call_within(partial(execute, self, call), seconds, check=check)
        except errors.LMTimeoutError as error:
            if error.status is None:  # ours, not the server's
                booking.tokens = tokens_at_most(call)
            raise
        except errors.LMError as error:
            if (told := understood(error)) is error:
                raise
            raise told from error
        except BaseException as error:  # abandoned; the server may complete the call, and charge for it
            booking.tokens = tokens_at_most(call)
            if isinstance(error, TimeoutError):
                raise errors.LMTimeoutError(str(error), model=self.model) from error
            raise
        result = without_keys(result)  # before the cache: a server may send the key back
        check_readable(result.responses)
        return result

    def _explained(self, error: errors.LMError) -> Exception:
        """Return the error to raise: one line for what the user can fix, else the original error."""
        if isinstance(error.__cause__, UserError):
            return error.__cause__
        if isinstance(error, errors.LMNotConfiguredError) and (keys := getattr(error, "env_keys", ())):
            return LMUnavailable(f"LM {self.model} needs a key: set {' or '.join(keys)}, then try again.", self.model)
        missing = isinstance(error, errors.LMUnsupportedModelError) or getattr(error, "status", None) == 404
        refused = isinstance(error, errors.LMInvalidRequestError) and not missing
        ours = not self.remote and isinstance(error, errors.LMUnexpectedError)
        stated, _, _ = str(error).partition("\n\n  To fix:")  # what lm15 adds is about calls by itself
        reason = one_line(stated or error).removeprefix(f"[{error.model}] ").removesuffix(".")
        where = f"{self.model.partition('/')[2]} at {self.address}" if self.address else self.model
        if refused and error.provider_code == FILTERED:
            said = f"A content filter of LM {where} refuses this question, or what was read for it: {reason}"
            return LMFiltered(redact(said), status=error.status, provider_code=FILTERED)
        if isinstance(error, errors.ContextWindowExceededError) or refused or ours:
            return error
        busy = isinstance(error, errors.LMRateLimitError) or getattr(error, "status", None) == 503
        cure = "Use fewer threads, or raise retry_timeout" if busy else "Check its id, URL and key, then try again"
        if isinstance(error, errors.LMBillingError):
            cure = "Its account has no credit left, or has reached its limit: raise that, then try again"
        status = getattr(error, "status", None)
        reason = reason if status is None or f"HTTP {status}" in reason else f"HTTP {status}: {reason}"
        text = f"LM {where} does not answer: {reason}. {cure}."
        ours = isinstance(error, (errors.LMTransportError, UnreadableReply))
        ours = ours or (isinstance(error, errors.LMTimeoutError) and status is None)
        quoted = () if ours else (reason.removeprefix(f"HTTP {status}: "),)
        return LMUnavailable(redact(text), self.model, getattr(error, "retry_after", None)).quoting(*quoted)


def metered_lm(model: str, *, engine: Any = "auto", budget: Budget | None = None, **kwargs: Any) -> MeteredLM:
    """Return a metered LM with an engine object (`complete(Request) -> Response`) or on any DSPy route.

    Args:
        model: Model string; with an engine object, the name in cache keys.
        engine: An engine object, or "auto" for the route that DSPy picks by `model`.
        budget: Limits, shared by all LMs that use it.
        **kwargs: As for `dspy.LM`.
    """
    if not isinstance(engine, str):
        kwargs["async_engine"] = AsyncEngine(engine)
    return MeteredLM(model, engine=engine, budget=budget, **kwargs)


def _counts(usage: Mapping[str, Any], usd: float | None) -> dict[str, float]:
    """Return the tokens and the price of a call that was sent."""
    return {
        "prompt_tokens": usage.get("prompt_tokens") or 0,
        "completion_tokens": usage.get("completion_tokens") or 0,
        "reasoning_tokens": (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0,
        "usd": usd or 0.0,
    }


def _record_cut(call: PreparedCall, result: CallResult) -> None:
    """Count replies that ended at the limit of tokens, unless the limit leaves room for one word only (yes or no)."""
    limit = call.request.config.max_tokens if call.request else call.legacy.get("max_tokens")
    if limit is None or limit > _ONE_WORD:
        record(cut_replies=finish_reasons(result).count("length"))


def _record_hit(call: PreparedCall, usage: Mapping[str, Any], usd: float | None) -> None:
    """Count a call that was answered without being sent, and what its reply cost when it was."""
    saved = (usage.get("prompt_tokens") or 0) + (usage.get("completion_tokens") or 0)
    record(calls=call.n, cached_calls=call.n, rounds=1, cached_tokens=saved, cached_usd=usd or 0.0)
