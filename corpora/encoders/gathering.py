"""Concurrent calls of a function of lists share calls of it, without waiting for one another.

The first caller that finds the function idle runs it on what is queued, its own items included; calls that arrive
meanwhile form the next batch, which one of them runs. There is no timer and no thread, so a lone call starts at once,
and nothing is lost when a caller is interrupted: the others take over.
"""

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from signatures.common.per_process import PerProcess

BATCH = 64  # items at most that calls are gathered into; a longer call is a batch of its own
_CHECK_SECONDS = 0.5  # between two looks whether the caller that runs was interrupted before it woke the next

Item = TypeVar("Item")
Results = TypeVar("Results")


class _Call:
    """One call: its items, and then their results or its error."""

    def __init__(self, items: list[Any]):
        self.items = items
        self.results: Any = None
        self.error: Exception | None = None
        self.done = False
        self.changed = threading.Event()

    def finish(self, results: Any = None, error: Exception | None = None) -> None:
        self.results, self.error, self.done = results, error, True
        self.changed.set()


class _State:
    """The calls of one process, in their order, and the lock of the one that runs."""

    def __init__(self) -> None:
        self.running = threading.Lock()
        self.calls: dict[int, _Call] = {}  # every step on it is one operation of dict, and so atomic
        self.numbers = itertools.count()

    def wake_first(self) -> None:
        """Let the first waiting call run; calls that come after this look for themselves."""
        for call in list(self.calls.values())[:1]:
            call.changed.set()


class Gathering(Generic[Item, Results]):
    """A function whose concurrent calls are gathered. Safe under threads; a forked process starts with an empty queue.

    Args:
        run: Returns the results of n items, an array or list of length n; called by one thread at a time.
        batch: Items gathered into one call of `run` at most.
    """

    def __init__(self, run: Callable[[list[Item]], Results], *, batch: int = BATCH):
        self._run, self._batch = run, batch
        self._state = PerProcess(_State)  # a fork while a thread runs copies a lock that nobody will release

    def __call__(self, items: Sequence[Item]) -> Results:
        """Return the results of `items`, in their order.

        An error of `run` is raised by the call whose items caused it: all calls of its batch are then run one by one.
        """
        state = self._state()
        call, number = _Call(list(items)), next(state.numbers)
        try:
            state.calls[number] = call
            while not call.done:
                if state.running.acquire(blocking=False):
                    try:
                        if not call.done:
                            self._run_batch(state)
                    finally:
                        state.running.release()
                        state.wake_first()
                else:
                    call.changed.wait(_CHECK_SECONDS)
                    call.changed.clear()
        finally:
            state.calls.pop(number, None)
            if not call.done:  # interrupted, perhaps after it was woken to run
                state.wake_first()
        if call.error is not None:
            raise call.error
        results: Results = call.results
        return results

    def _run_batch(self, state: _State) -> None:
        batch: dict[int, _Call] = {}
        size = 0
        for number, call in list(state.calls.items()):
            if batch and size + len(call.items) > self._batch:
                break
            batch[number] = call
            size += len(call.items)
        calls = list(batch.values())
        try:
            self._run_calls(calls)
        except Exception as error:  # noqa: BLE001 (raised by the call that caused it)
            for call in calls:
                try:
                    if len(calls) == 1:
                        raise error
                    self._run_calls([call])
                except Exception as own:  # noqa: BLE001
                    call.finish(error=own)
        for number in batch:
            state.calls.pop(number, None)

    def _run_calls(self, calls: list[_Call]) -> None:
        items = [item for call in calls for item in call.items]
        results: Any = self._run(items)
        if len(results) != len(items):
            raise ValueError(f"{len(results)} results for {len(items)} items")
        start = 0
        for call in calls:
            call.finish(results[start : start + len(call.items)])
            start += len(call.items)
