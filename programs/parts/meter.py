"""The cost of one question: LM calls, tokens, sequential rounds, price, parse failures and truncated prompts.

Adapters, LMs and `fanout` write to the meter of the running context; the runner reads it. The meter is a context
variable, so that programs need not pass it along and threads do not mix their counts.
"""

import contextlib
import contextvars
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, fields


@dataclass
class Meter:
    """Counts of one question.

    Args:
        calls: LM calls requested by the program, cached or not; each attempt of a retried call counts.
        cached_calls: Those of `calls` that the cache answered; they cost nothing.
        prompt_tokens: Tokens sent, cache hits excluded.
        completion_tokens: Tokens generated, cache hits excluded.
        cached_tokens: Prompt and completion tokens that cache hits saved, if the LM reports them.
        rounds: Sequential LM rounds: calls made in parallel count once.
        parse_failures: Unparseable replies.
        truncated: Prompts cut to fit the context.
        usd: Price of the calls in US dollars, if the LM reports one.
        retries: Those of `calls` that repeated a failed one.
        waited: Seconds spent waiting for a server that limits the rate or fails, over all calls.
    """

    calls: int = 0
    cached_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    rounds: int = 0
    parse_failures: int = 0
    truncated: int = 0
    usd: float = 0.0
    retries: int = 0
    waited: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, **counts: float) -> None:
        """Add to the named counts; safe under threads."""
        with self._lock:
            for name, count in counts.items():
                setattr(self, name, getattr(self, name) + count)

    def counts(self) -> dict[str, float]:
        """Return all counts by name."""
        return {item.name: getattr(self, item.name) for item in fields(self) if not item.name.startswith("_")}


_current: contextvars.ContextVar[Meter | None] = contextvars.ContextVar("verihop_meter", default=None)


@contextlib.contextmanager
def metered(meter: Meter | None = None) -> Iterator[Meter]:
    """Count the calls inside the block in `meter`, by default a new one; an outer meter does not count them."""
    meter = meter or Meter()
    token = _current.set(meter)
    try:
        yield meter
    finally:
        _current.reset(token)


def record(**counts: float) -> None:
    """Add to the meter of the running context, if there is one."""
    meter = _current.get()
    if meter is not None:
        meter.add(**counts)
