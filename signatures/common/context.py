"""Context variables, which are set while a block runs."""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import TypeVar

Value = TypeVar("Value")


@contextlib.contextmanager
def set_within(variable: contextvars.ContextVar[Value], value: Value) -> Iterator[Value]:
    """Set a context variable while the block runs, also for threads that copy its context; yield the value."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)
