"""A part of a budget."""

from collections.abc import Callable


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
