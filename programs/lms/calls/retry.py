"""When a failed call is repeated, how long it waits before that, and how many calls a server gets at a time.

A server that limits the rate (429, 503), or that answered before and cannot be reached now, is waited for up to the
retry timeout. Other transient failures are repeated a few times; all others, such as a wrong key, never.

The calls at a time are halved when the server refuses one, and grow again with each reply: additive increase and
multiplicative decrease, as in TCP's congestion avoidance (Chiu and Jain, "Analysis of the Increase and Decrease
Algorithms for Congestion Avoidance", 1989, https://doi.org/10.1016/0169-7552(89)90019-6). A server whose replies are
quick can refuse even one call at a time, so at a limit of 1 calls are also spaced out in time.
"""

import contextlib
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal

from dspy.utils import exceptions as errors

from programs.lms.calls.control import CLOCK, Clock, current_control, wait
from programs.lms.calls.transport import Transport
from programs.parts.meter import record
from programs.parts.replies.sources import SOURCES
from signatures.common.per_process import Uncopied

Outcome = Literal["answered", "refused", "failed"]
Wait = Callable[[threading.Event, float], None]

_FIRST_SPACING, _LONGEST_SPACING = 0.02, 1.0  # seconds between the starts of two calls
_CLOSER = 1.1  # each reply divides the spacing by this
_UNTIL_WOKEN = 3600.0


class ConcurrencyLimit(Uncopied):
    """A limit on the calls in flight at one server, shared by all LMs on it; waiting calls start in order.

    Args:
        most: Calls in flight at a time while the server refuses none.
        clock: Measures spacing and the waits that the server asks for.
    """

    def __init__(self, most: int, *, clock: Clock = CLOCK):
        self._most = most
        self._clock = clock
        self._limit = float(most)
        self._spacing = 0.0
        self._opens = 0.0  # no call starts before
        self._last_cut = float("-inf")
        self._in_flight = 0
        self._queue: deque[threading.Event] = deque()
        self._lock = threading.Lock()
        self.answered = False
        self.away_since: float | None = None  # as the user was told, who is also told when it is over

    @property
    def limit(self) -> int:
        """Calls that may be in flight now."""
        return int(self._limit)

    def raise_maximum(self, most: int) -> None:
        """Raise the upper bound of the limit to `most`, for another LM on the same server."""
        with self._lock:
            if self._limit == self._most < most:
                self._limit = float(most)
            self._most = max(self._most, most)

    def divide(self, processes: int, number: int) -> None:
        """Keep the share of process `number`, from 0, of `processes` that call the server at the same time."""
        with self._lock:
            self._most = max(1, self._most // processes + (number < self._most % processes))
            self._limit = min(self._limit, float(self._most))

    def acquire(self, wait: Wait) -> float:
        """Wait until a call may start, and return the time at which it does.

        Args:
            wait: Called with an event and seconds; what it raises gives the turn to the next caller.
        """
        turn = threading.Event()
        with self._lock:
            self._queue.append(turn)
        try:
            while (seconds := self._seconds_to_wait(turn)) > 0:
                wait(turn, seconds)
        except BaseException:
            with self._lock:
                self._queue.remove(turn)
                self._wake()
            raise
        return self._clock.now()

    def _seconds_to_wait(self, turn: threading.Event) -> float:
        """Start the call and return 0 if it is its turn, else return after how many seconds to ask again."""
        with self._lock:
            turn.clear()
            if self._queue[0] is not turn or self._in_flight >= self.limit:
                return _UNTIL_WOKEN
            now = self._clock.now()
            if now < self._opens:
                return self._opens - now
            self._queue.popleft()
            self._in_flight += 1
            self._opens = now + self._spacing
            self._wake()
            return 0.0

    def _wake(self) -> None:
        if self._queue:
            self._queue[0].set()

    def release(self, started: float, outcome: Outcome, *, hint: float = 0.0) -> float | None:
        """End a call; return since when the server was away, if it has just come back.

        Args:
            started: What `acquire` returned.
            outcome: Whether the server answered, refused the call because of its load, or failed otherwise.
            hint: Seconds for which the server asks not to be called.
        """
        back = None
        with self._lock:
            in_flight = self._in_flight
            self._in_flight -= 1
            if outcome == "answered":
                self.answered = True
                back, self.away_since = self.away_since, None
                self._grow()
            elif outcome == "refused":
                now = self._clock.now()
                # Calls that were in flight at the last cut tell nothing new.
                if started >= self._last_cut:
                    self._last_cut = now
                    self._cut(in_flight)
                self._opens = max(self._opens, now + hint)
            self._wake()
        return back

    def _cut(self, in_flight: int) -> None:
        if self._limit > 1:
            self._limit = max(1.0, min(self._limit, in_flight) / 2)  # there may be fewer calls than the limit allows
        else:
            self._spacing = min(max(2 * self._spacing, _FIRST_SPACING), _LONGEST_SPACING)

    def _grow(self) -> None:
        if self._spacing:
            closer = self._spacing / _CLOSER
            self._spacing = closer if closer >= _FIRST_SPACING / 2 else 0.0
        else:
            self._limit = min(float(self._most), self._limit + 1 / self._limit)


_limits: dict[str, ConcurrencyLimit] = {}
_limits_lock = threading.Lock()


def shared_limit(server: str, most: int) -> ConcurrencyLimit:
    """Return the concurrency limit of a server, the same for all LMs of this process on it."""
    with _limits_lock:
        limit = _limits.setdefault(server, ConcurrencyLimit(most))
    limit.raise_maximum(most)
    return limit


def share_limits(processes: int, number: int) -> None:
    """Divide the concurrency limits of this process among `processes` forks; this is number `number`, from 0."""
    with _limits_lock:
        limits = list(_limits.values())
    for limit in limits:
        limit.divide(processes, number)


LONGEST_BACK_OFF = 60.0  # seconds
_LAST_DOUBLED = 16  # attempt; far above the longest back-off, and 2.0**1024 is not a number
_LONGEST_AT_LIMIT = 16.0  # the concurrency limit paces calls then; longer waits would leave it unused
_LONGEST_HINT = 20.0  # seconds, for a transient failure

_REPLIES = {"choices", "output", "content", "candidates", SOURCES}  # under which providers, and we, put the reply

Failure = Literal["refused", "outage", "transient", "permanent"]


def failure_of(error: errors.LMError, *, remote: bool, answered: bool) -> Failure:
    """Return what kind of failure an error is.

    Args:
        error: As DSPy raises it.
        remote: The LM is on a server, where an error that DSPy does not expect is a reply that cannot be read.
        answered: The server has answered before; an address that never did is more likely wrong than down.
    """
    status = getattr(error, "status", None)
    if isinstance(error, errors.LMRateLimitError) or (isinstance(error, errors.LMServerError) and status == 503):
        return "refused"
    if isinstance(error, errors.LMTransportError) and answered and not _timed_out(error):
        return "outage"
    unreadable = remote and (
        isinstance(error, errors.LMUnexpectedError) or (type(error) is errors.LMProviderError and status == 200)
    )
    return "transient" if errors.is_retryable_lm_error(error) or unreadable else "permanent"


def _timed_out(error: BaseException | None) -> bool:
    """Return whether a time limit is the cause: the same call would take as long again."""
    while error is not None:
        if "Timeout" in type(error).__name__:
            return True
        error = error.__cause__
    return False


class UnreadableReply(errors.LMServerError):
    """A server's reply has no answer; the message is ours, and quotes nothing."""


def check_readable(responses: Any) -> None:
    """Raise a transient error if a server's reply has no choices, or null in place of a text.

    An empty text is a reply, and so is one that ended for another reason (its length, a filter).
    """
    for response in responses:
        body = response.provider_data
        if isinstance(body, dict) and "choices" in body and not _has_content(body["choices"]):
            raise UnreadableReply("the reply has no content")
        if isinstance(body, dict) and not response.message.text and not _REPLIES & set(body):
            raise UnreadableReply("the reply has no choices")


def _has_content(choices: Any) -> bool:
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict):
        return False
    if first.get("finish_reason") in ("length", "content_filter"):
        return True
    message = first.get("message", {})
    if not isinstance(message, dict):
        return "text" in first
    return any(message.get(name) for name in ("tool_calls", "reasoning_content", "reasoning", "refusal")) or isinstance(
        message.get("content", first.get("text")), str | list
    )


def jitter() -> float:
    """Return a random share of the longest back-off, so that callers refused together do not come back together."""
    return random.random()


def back_off(attempt: int, longest: float = LONGEST_BACK_OFF) -> float:
    """Return the seconds to wait before repetition number `attempt`, from 1: random, each time up to twice as long.

    "Full jitter" of https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/.
    """
    return jitter() * min(2.0 ** min(attempt, _LAST_DOUBLED), longest)


class Attempts:
    """The attempts of one call.

    Args:
        transport: Retries and the retry timeout.
        concurrency: Limit of the server.
        clock: Measures waits.
        remote: The LM is on a server.
        check: Called during waits; what it raises (a spent budget) ends them.
    """

    def __init__(
        self,
        transport: Transport,
        concurrency: ConcurrencyLimit,
        *,
        clock: Clock,
        remote: bool,
        check: Callable[[], None],
    ):
        self._transport, self._concurrency = transport, concurrency
        self._clock, self._remote, self._check = clock, remote, check
        self._made = self._failed = 0
        self._waiting_since: float | None = None

    @contextlib.contextmanager
    def permit(self) -> Iterator[None]:
        """Run one attempt within the concurrency limit, and tell it the outcome."""
        current_control().check()
        started = self._concurrency.acquire(self._wait)
        outcome: Outcome = "failed"
        hint = 0.0
        try:
            yield
            outcome = "answered"
        except errors.LMError as error:
            if self._kind(error) == "refused":
                outcome = "refused"
                # Without a hint all calls pause for about a second, the shortest period of usual limits.
                hint = _hint(error) or 0.5 + jitter() / 2
            raise
        finally:
            # A hint of hours ends the call; it must not keep all others waiting.
            hint = hint if hint <= self._transport.retry_timeout else 0.0
            if (away := self._concurrency.release(started, outcome, hint=hint)) is not None:
                seconds = max(self._clock.now() - away, 1)
                current_control().notice(f"The LM server answers again, after {seconds:.0f} s.", at_once=True)

    def wait_after(self, error: errors.LMError) -> bool:
        """Wait after a failed attempt, and return True; return False if there shall be no other attempt."""
        kind = self._kind(error)
        if kind == "permanent":
            return False
        self._made += 1
        seconds = back_off(self._made, _LONGEST_AT_LIMIT if kind == "refused" else LONGEST_BACK_OFF)
        if kind == "transient":
            self._failed += 1
            if self._failed > self._transport.retries:
                return False
            seconds = max(min(_hint(error), _LONGEST_HINT), seconds)
        else:
            seconds = max(_hint(error), seconds)
            now = self._clock.now()
            self._waiting_since = now if self._waiting_since is None else self._waiting_since
            if now + seconds - self._waiting_since > self._transport.retry_timeout:
                return False
            self._tell(kind, seconds, self._waiting_since)
        record(retries=1)
        self._wait(threading.Event(), seconds)
        return True

    def _kind(self, error: errors.LMError) -> Failure:
        return failure_of(error, remote=self._remote, answered=self._concurrency.answered)

    def _tell(self, kind: Failure, seconds: float, since: float) -> None:
        what = "The LM server limits the rate" if kind == "refused" else "The LM server cannot be reached"
        calls = self._concurrency.limit
        told = current_control().notice(
            f"{what}: waiting {max(seconds, 1):.0f} s, then {calls} {'call' if calls == 1 else 'calls'} at a time."
        )
        if told and kind == "outage" and self._concurrency.away_since is None:
            self._concurrency.away_since = since

    def _wait(self, event: threading.Event, seconds: float) -> None:
        before = self._clock.now()
        try:
            wait(event, seconds, clock=self._clock, check=self._check)
        finally:
            record(wait_seconds=self._clock.now() - before)


def _hint(error: errors.LMError) -> float:
    """Return the seconds for which the server asks not to be called; 0 if it does not say."""
    return float(getattr(error, "retry_after", None) or 0.0)
