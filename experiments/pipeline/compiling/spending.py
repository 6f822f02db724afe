"""What a compilation has spent from the budgets of its LMs, over all its sessions."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from programs.lms.calls.share import PAID

if TYPE_CHECKING:
    from programs.lms.calls.budget import Budget

Spent = dict[str, float]
# What a budget of this process has counted of each compilation, so that sessions with one budget count once.
_COUNTED: "WeakKeyDictionary[Budget, dict[str, Spent]]" = WeakKeyDictionary()


class Spending:
    """Counts what earlier sessions have spent in the budgets of this session.

    Args:
        lms: The LMs by what they do; those that share a budget are counted once.
        folder: Of the checkpoint, which tells compilations apart.
        earlier: What `spent` returned at the end of the session before.
    """

    def __init__(self, lms: Mapping[str, Any], folder: Path, earlier: Mapping[str, Spent]):
        self._folder, self._earlier = str(folder.resolve()), earlier
        self._budgets: dict[str, Budget] = {}
        for name, lm in lms.items():
            budget = getattr(lm, "budget", None)
            if budget is not None and all(budget is not other for other in self._budgets.values()):
                self._budgets[name] = budget
        for name, budget in self._budgets.items():
            known = _COUNTED.get(budget, {}).get(self._folder, {})
            before = earlier.get(name, {})
            budget.carry(**{each: max(0, before.get(each, 0) - known.get(each, 0)) for each in PAID})
        self._start = {name: budget.spent for name, budget in self._budgets.items()}

    def spent(self) -> dict[str, Spent]:
        """Return calls, tokens and usd of all sessions, for each budget."""
        found = dict(self._earlier)
        for name, budget in self._budgets.items():
            before, start, now = self._earlier.get(name, {}), self._start[name], budget.spent
            found[name] = {each: before.get(each, 0) + now[each] - start[each] for each in PAID}
            _COUNTED.setdefault(budget, {})[self._folder] = found[name]
        return found
