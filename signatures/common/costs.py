"""The one record of what was spent: amounts by name, such as LM calls, tokens, US dollars and seconds.

It is a dict, so that it is written and read as JSON; a place that writes some of the names takes these (`of`).
"""

from collections.abc import Iterable, Mapping

# What a question costs whose replies are all new, by the counts of `programs.parts.meter.Meter`.
_ASKED = {
    "calls": ("calls",),
    "tokens": ("prompt_tokens", "completion_tokens", "cached_tokens"),
    "usd": ("usd", "cached_usd"),
}


class Costs(dict[str, float]):
    """Amounts by name; those that are not named, or not known, are 0."""

    def __missing__(self, name: str) -> float:
        return 0

    def __add__(self, other: Mapping[str, float]) -> "Costs":
        return Costs({name: self[name] + (other.get(name) or 0) for name in {**self, **other}})

    def __sub__(self, other: Mapping[str, float]) -> "Costs":
        return Costs({name: self[name] - (other.get(name) or 0) for name in {**self, **other}})

    def of(self, names: Iterable[str]) -> "Costs":
        """Return the amounts of these names."""
        return Costs({name: self[name] for name in names})

    def nonzero(self) -> "Costs":
        """Return the amounts that are not 0."""
        return Costs({name: amount for name, amount in self.items() if amount})

    def rounded(self) -> "Costs":
        """Return the amounts with six decimals, as they are stored."""
        return Costs({name: round(amount, 6) for name, amount in self.items()})

    def whole(self) -> "Costs":
        """Return the amounts as limits: calls and tokens are whole numbers."""
        return Costs({name: int(each) if name in ("calls", "tokens") else each for name, each in self.items()})

    def left_of(self, limits: Mapping[str, float | None]) -> "Costs":
        """Return what is left of each limit, at least 0; None is no limit."""
        return Costs({name: max(0.0, limit - self[name]) for name, limit in limits.items() if limit is not None})


def total(parts: Iterable[Mapping[str, float]], names: Iterable[str]) -> Costs:
    """Return the sums of these names over all parts."""
    parts = list(parts)
    return Costs({name: sum(part.get(name) or 0 for part in parts) for name in names})


def asked(counts: Mapping[str, float], name: str) -> float:
    """Return the calls, tokens or usd of counts, replies from the cache included as if they had been sent.

    So they do not depend on what was asked before.
    """
    return sum(counts.get(each) or 0 for each in _ASKED[name])


def paid(counts: Mapping[str, float]) -> Costs:
    """Return the calls, tokens and usd of counts without replies from the cache."""
    tokens = counts["prompt_tokens"] + counts["completion_tokens"]
    return Costs(calls=counts["calls"] - counts["cached_calls"], tokens=tokens, usd=counts.get("usd") or 0)
