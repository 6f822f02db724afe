"""Progress of a build on stderr: rate and time left, from the work of the last minute."""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from signatures.common.progress import ProgressLine

_WINDOW = 60.0  # seconds that count as recent
_FEWEST = 4  # steps that count as recent, however long they took


class Pace:
    """Rate and time left of work whose steps are of different size.

    The rate is that of the recent steps, so that it follows a machine that becomes busy; the time left is the work left
    at that rate, in units of work (characters, for example) and not in steps, which may be long at the end.

    Args:
        total: Units of work in all; None if unknown.
        clock: Returns seconds.
    """

    def __init__(self, total: float | None, clock: Callable[[], float] = time.monotonic):
        self._left, self._clock = total, clock
        self._done = 0.0
        self._items = 0
        self._steps: deque[tuple[float, float, int]] = deque([(clock(), 0.0, 0)])  # time, work and items until then

    def advance(self, items: int, work: float, *, skipped: bool = False) -> None:
        """Count a step.

        Args:
            items: What is counted in the rate that is shown.
            work: Its units of work.
            skipped: It was done by an earlier call, so that it says nothing about the rate.
        """
        if self._left is not None:
            self._left = max(0.0, self._left - work)
        now = self._clock()
        if skipped:
            if len(self._steps) == 1:  # reading what is there took time, too
                self._steps[0] = (now, 0.0, 0)
            return
        self._done += work
        self._items += items
        self._steps.append((now, self._done, self._items))
        while len(self._steps) > _FEWEST + 1 and self._steps[1][0] <= now - _WINDOW:
            self._steps.popleft()

    @property
    def rate(self) -> float | None:
        """Items per second; None before the first step."""
        seconds, _, items = self._recent()
        return items / seconds if seconds > 0 and items else None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the work is done; None before the first step, or if the total is unknown."""
        seconds, work, _ = self._recent()
        if self._left is None or (not (seconds > 0 and work) and self._left):
            return None
        return self._left * seconds / work if self._left else 0.0

    def _recent(self) -> tuple[float, float, int]:
        first, last = self._steps[0], self._steps[-1]
        return last[0] - first[0], last[1] - first[1], last[2] - first[2]


class Advance(Protocol):
    """Counts a finished step of a bar."""

    def __call__(self, items: int, work: float | None = None, *, skipped: bool = False) -> None:
        """Count `items`, with their units of work (by default their number); see `Pace.advance`."""


def duration(seconds: float) -> str:
    """Return seconds as h:mm:ss."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def size(count: int) -> str:
    """Return a number of bytes in kB, MB or GB."""
    unit, name = next((each for each in ((1e9, "GB"), (1e6, "MB")) if count >= each[0]), (1e3, "kB"))
    return f"{count / unit:,.{0 if name == 'kB' else 1}f} {name}"


@contextlib.contextmanager
def progress_bar(what: str, total: int | None, shown: bool, *, work: float | None = None) -> Iterator[Advance]:
    """Show a bar on stderr with passages per second and the time left; yield the function that advances it.

    Args:
        what: Name of the step.
        total: Passages; None if unknown.
        shown: False shows nothing.
        work: Units of work of all passages; None if each is one.
    """
    if not shown:
        yield lambda items, work=None, *, skipped=False: None
        return
    pace = Pace(total if work is None else work)
    with ProgressLine(what, "what", "bar", "count", "figures", total=total, shown=shown) as line:

        def advance(items: int, work: float | None = None, *, skipped: bool = False) -> None:
            pace.advance(items, items if work is None else work, skipped=skipped)
            rate, left = pace.rate, pace.seconds_left
            speed = "" if rate is None else f"{rate:,.0f} passages/s"
            line.update(advance=items, figures=speed + ("" if left is None else f" {duration(left)}"))

        yield advance
