"""Ctrl-C and SIGTERM between two steps: what changes the weights or writes files is not stopped in the middle."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Treat SIGTERM, which ends a job whose time is over, like Ctrl-C while the block runs.

    Raises:
        KeyboardInterrupt: One of the two was sent.
    """
    with _handled({signal.SIGTERM: _interrupt}):
        yield


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until the block has ended, or the outermost of several.

    Raises:
        KeyboardInterrupt: After the block, if Ctrl-C was pressed in it.
    """
    sent: list[int] = []
    with _handled(dict.fromkeys(_SIGNALS, lambda number, frame: sent.append(number))):
        yield
    if sent:
        handler = signal.getsignal(sent[0])
        if callable(handler):
            handler(sent[0], None)
        else:  # as without the block: ignored, or the end of the process
            signal.raise_signal(sent[0])


@contextlib.contextmanager
def _handled(handlers: dict[signal.Signals, Any]) -> Iterator[None]:
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
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
