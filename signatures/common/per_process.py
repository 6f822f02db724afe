"""State that a forked process must not inherit and copies of programs share: locks, models with threads, caches."""

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

T = TypeVar("T")

# What a child inherited and must neither use nor delete: deleting a model waits for threads that only the parent has.
_inherited: list[Any] = []
_values: "weakref.WeakSet[PerProcess[Any]]" = weakref.WeakSet()


class Uncopied:
    """What copies of a program share, because optimizers copy programs: an LM, a retriever, their locks and counts."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class PerProcess(Generic[T]):
    """A value that is made at its first use, once in each process. Safe under threads.

    Args:
        make: Makes it; if it raises, the next use tries again.
    """

    def __init__(self, make: Callable[[], T]):
        self._make = make
        self._lock = threading.RLock()
        self._made: list[T] = []
        _values.add(self)

    def __call__(self) -> T:
        """Return the value of this process."""
        if not self._made:
            with self._lock:
                if not self._made:
                    self._made = [self._make()]
        return self._made[0]

    def forget(self) -> None:
        """Begin anew, in the child of a fork."""
        _inherited.append(self._made)
        self._lock, self._made = threading.RLock(), []


def _after_fork() -> None:
    for value in list(_values):
        value.forget()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    # In the child before any of its code, so that no two of its threads can find the state of the parent.
    os.register_at_fork(after_in_child=_after_fork)
