"""Threads that can be told to stop without losing what they have in hand."""

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Outcome(NamedTuple, Generic[Item, Result]):
    """What became of one item: a result, or the exception (of any kind) that its work ended with."""

    item: Item
    result: Result | None
    error: BaseException | None


class Workers(Generic[Item, Result]):
    """Works on items side by side; iterating gives each outcome as it comes.

    Every item runs in a copy of the context in which the workers were made, so that `dspy.context` and meters reach it.
    An iteration that an exception interrupts (Ctrl-C) can be taken up again. The threads are daemons: whoever cannot
    wait for a slow LM can leave, which a `ThreadPoolExecutor` does not allow. They run at most one item per thread
    ahead of the iteration, and an item that ends with what is no Exception keeps further ones from being started.

    Args:
        work: What is done with an item.
        items: Taken in order.
        threads: How many items are worked on at a time, at least 1.
    """

    def __init__(self, work: Callable[[Item], Result], items: Iterable[Item], *, threads: int):
        self._work = work
        self._items = list(items)
        self._most_open = 2 * threads
        self._context = contextvars.copy_context()
        self._outcomes: deque[Outcome[Item, Result]] = deque()
        self._changed = threading.Condition()
        self._taken = self._given_back = 0
        for number in range(min(threads, len(self._items))):
            threading.Thread(target=self._run, name=f"question-{number}", daemon=True).start()

    def _may_take(self) -> bool:
        return self._taken == len(self._items) or self._taken - self._given_back < self._most_open

    def _take(self) -> Item | None:
        with self._changed:
            self._changed.wait_for(self._may_take)
            if self._taken == len(self._items):
                return None
            self._taken += 1
            return self._items[self._taken - 1]

    def _run(self) -> None:
        while (item := self._take()) is not None:
            try:
                outcome = Outcome(item, self._context.copy().run(self._work, item), None)
            except BaseException as error:  # noqa: BLE001 - handed over to the thread that iterates
                outcome = Outcome(item, None, error)
                if not isinstance(error, Exception):
                    self.stop()
            with self._changed:
                self._outcomes.append(outcome)
                self._changed.notify_all()

    def stop(self) -> int:
        """Let no further item be started; return how many are still being worked on."""
        with self._changed:
            del self._items[self._taken :]
            self._changed.notify_all()
            return self._taken - self._given_back - len(self._outcomes)

    def __iter__(self) -> "Workers[Item, Result]":
        return self

    def __next__(self) -> Outcome[Item, Result]:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._outcomes) or self._given_back == len(self._items))
            if not self._outcomes:
                raise StopIteration
            self._given_back += 1
            self._changed.notify_all()
            return self._outcomes.popleft()
