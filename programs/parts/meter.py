"""The cost of one question: LM calls, tokens, sequential rounds, price, parse failures and truncated prompts.

Adapters, LMs and `fanout` write to the meter of the running context; the runner reads it. The meter is a context
variable, so that programs need not pass it along and threads do not mix their counts.
"""

import contextlib
import contextvars
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from typing import Any

from signatures.common.context import set_within
from signatures.common.costs import Costs

MOST_THOUGHTS = 50
LONGEST_THOUGHT = 4000  # characters


@dataclass(frozen=True)
class Thought:
    """What the LM thought before one reply.

    Args:
        predictor: The predictor that asked; None if it is not known.
        text: At most `LONGEST_THOUGHT` characters.
    """

    predictor: Any
    text: str


_SHOWN = 200  # characters kept of a reply that could not be parsed


@dataclass
class Meter:
    """Counts of one question.

    Args:
        calls: LM calls requested by the program, cached or not; each attempt of a retried call counts.
        cached_calls: Those of `calls` that the cache, or the record of a stopped run, answered; they cost nothing.
        prompt_tokens: Tokens sent, cache hits excluded.
        completion_tokens: Tokens generated, cache hits excluded.
        cached_tokens: Prompt and completion tokens that cache hits saved, if the LM reports them.
        rounds: Sequential LM rounds: calls made in parallel count once.
        replies: Replies of the LM that were parsed or could not be, cached or not.
        parse_failures: Unparseable replies.
        truncated: Prompts cut to fit the context.
        reasoning_tokens: Those of `completion_tokens` that are thinking; estimated if the LM does not report them.
        thinking_only: Replies that contain only thinking and no answer; they count as parse failures as well.
        cut_replies: Replies that ended at the limit of tokens, cached or not; what they say may be incomplete.
        usd: Price of the calls in US dollars, cache hits excluded, if the LM reports one.
        cached_usd: Price of those calls when they were sent that the cache answered, if it is known.
        retries: Calls that repeated a failed one.
        wait_seconds: Spent waiting for a server that limits the rate or fails, over all calls.
    """

    calls: int = 0
    cached_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    rounds: int = 0
    replies: int = 0
    parse_failures: int = 0
    truncated: int = 0
    reasoning_tokens: int = 0
    thinking_only: int = 0
    cut_replies: int = 0
    usd: float = 0.0
    cached_usd: float = 0.0
    retries: int = 0
    wait_seconds: float = 0.0
    _outer: "Meter | None" = field(default=None, repr=False, compare=False)
    _before: int | None = field(default=None, repr=False, compare=False)  # rounds of the outer one, see `beside`
    _unreadable: str | None = field(default=None, repr=False, compare=False)
    _thinking: list[Thought] = field(default_factory=list, repr=False, compare=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, **counts: float) -> None:
        """Add to the named counts; safe under threads."""
        with self._lock:
            for name, count in counts.items():
                setattr(self, name, getattr(self, name) + count)
        if self._outer is not None:
            self._outer.add(**(counts if self._before is None else {**counts, "rounds": 0}))

    def join(self) -> None:
        """Count the rounds of a meter made by `beside` in the outer one, after those that it had when this one began.

        Of work that ran at the same time the longest thus counts once. To do it again changes nothing.
        """
        if self._outer is not None and self._before is not None:
            self._outer.reach(self._before + self.rounds)

    def reach(self, rounds: int) -> None:
        """Raise the rounds to this many, if they are fewer."""
        with self._lock:
            more = max(0, rounds - self.rounds)
            self.rounds += more
        if self._outer is not None and self._before is None:
            self._outer.add(rounds=more)

    def add_thinking(self, thoughts: Iterable[Thought]) -> None:
        """Keep what the LM thought, of each question the first `MOST_THOUGHTS`; safe under threads."""
        with self._lock:
            kept = list(islice(thoughts, MOST_THOUGHTS))
            self._thinking.extend(kept[: max(0, MOST_THOUGHTS - len(self._thinking))])
        if self._outer is not None:
            self._outer.add_thinking(kept)

    def thinking(self) -> list[Thought]:
        """Return what the LM thought, oldest first."""
        with self._lock:
            return list(self._thinking)

    @property
    def unreadable(self) -> str | None:
        """The start of the first reply that could not be parsed, as one line; None if all were."""
        return self._unreadable

    def keep_unreadable(self, reply: str) -> None:
        """Keep the start of a reply that could not be parsed, if it is the first."""
        with self._lock:
            if self._unreadable is None:
                self._unreadable = " ".join(reply[: 4 * _SHOWN].split())[:_SHOWN]
        if self._outer is not None:
            self._outer.keep_unreadable(reply)

    def counts(self) -> Costs:
        """Return all counts by name."""
        return Costs({item.name: getattr(self, item.name) for item in fields(self) if not item.name.startswith("_")})


_current: contextvars.ContextVar[Meter | None] = contextvars.ContextVar("verihop_meter", default=None)


@contextlib.contextmanager
def metered(meter: Meter | None = None) -> Iterator[Meter]:
    """Count the calls inside the block in `meter`, by default a new one; an outer meter does not count them."""
    meter = meter or Meter()
    with set_within(_current, meter):
        yield meter


def inner_meter() -> Meter:
    """Return a new meter whose counts are also those of the meter of the running context, at once."""
    return Meter(_outer=_current.get())


def concurrent_meter() -> Meter:
    """Return such a meter for work beside which other work of the context may run: its rounds count when it joins."""
    outer = _current.get()
    return Meter(_outer=outer, _before=0 if outer is None else outer.rounds)


@contextlib.contextmanager
def metered_concurrently() -> Iterator[Meter]:
    """Count the calls inside the block in a meter as `concurrent_meter` returns it, which joins at the end."""
    meter = concurrent_meter()
    try:
        with metered(meter):
            yield meter
    finally:
        meter.join()


def counts_so_far() -> Costs:
    """Return the counts of the meter of the running context; all 0 without one."""
    return (_current.get() or Meter()).counts()


def record_unreadable(reply: str | None) -> None:
    """Keep a reply that could not be parsed in the meter of the running context, if it is the first and not None."""
    meter = _current.get()
    if meter is not None and reply is not None:
        meter.keep_unreadable(reply)


def record(**counts: float) -> None:
    """Add to the meter of the running context, if there is one."""
    meter = _current.get()
    if meter is not None:
        meter.add(**counts)


def record_thinking(*thoughts: Thought) -> None:
    """Add to the thoughts of the meter of the running context, if there is one."""
    meter = _current.get()
    if meter is not None:
        meter.add_thinking(Thought(thought.predictor, thought.text[:LONGEST_THOUGHT]) for thought in thoughts)


def record_parallel(meters: Sequence[Meter]) -> None:
    """Add what was counted in parallel to the meter of the running context; rounds count once, those of the longest."""
    for meter in meters:
        record(**{**meter.counts(), "rounds": 0})
        record_thinking(*meter.thinking())
        record_unreadable(meter.unreadable)
    record(rounds=max(meter.rounds for meter in meters))
