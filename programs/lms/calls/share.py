"""Parts of a budget: shares of it, and what earlier sessions of the same work have spent of it.

A session that repeats the work from its start gets the replies that were paid for from the cache. Each is taken over
when the cache gives it for the first time, so that what was spent until then is what one session would have spent.
"""

from collections.abc import Callable

PAID = ("calls", "tokens", "usd")  # seconds are those of a session


class Share:
    """A part of a budget, which `Budget.within` opens.

    Args:
        limits: On what is spent from now on.
        sums: Returns what the whole budget has spent in one session, with the time of its clock as `seconds`.
        name: What messages call it.
    """

    def __init__(self, limits: dict[str, float | None], sums: Callable[[], dict[str, float]], name: str):
        self.limits, self.name = limits, name
        self._sums, self._before = sums, sums()

    @property
    def spent(self) -> dict[str, float]:
        """Calls, tokens, usd and seconds since the share was opened."""
        return {name: value - self._before[name] for name, value in self._sums().items()}


class Earlier:
    """Calls, tokens and usd that were spent before and are not taken over yet; not safe under threads."""

    def __init__(self) -> None:
        self.left = dict.fromkeys(PAID, 0.0)
        self.known: set[str] = set()  # keys of the calls that this session has sent or taken over

    def add(self, spent: dict[str, float]) -> None:
        """Add what was spent."""
        for name, value in spent.items():
            self.left[name] += value

    def may_have_paid(self, key: str, calls: int) -> bool:
        """Return whether a reply from the cache is to be taken over: it is then new here, and its calls are left."""
        return key not in self.known and self.left["calls"] >= calls

    def take_over(self, key: str, **cost: float) -> None:
        """Take a reply over with what it has cost."""
        self.known.add(key)
        for name, value in cost.items():
            self.left[name] = max(0.0, self.left[name] - value)
