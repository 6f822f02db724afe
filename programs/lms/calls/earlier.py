"""What earlier sessions of the same work have spent, and what of it the present session has taken over.

A session that repeats the work from its start gets the replies that were paid for from the cache. Each is taken over
when the cache gives it for the first time, so that what was spent until then is what one session would have spent.
"""

PAID = ("calls", "tokens", "usd")  # seconds are those of a session


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
