"""Signals such as Ctrl-C, handled while a block runs."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any


@contextlib.contextmanager
def handled(handlers: Mapping[int, Callable[[int, Any], Any]]) -> Iterator[None]:
    """Handle signals while the block runs; only the main thread can, and in others nothing is handled."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in handlers}
    try:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, signal.SIG_DFL if earlier is None else earlier)
