"""Concurrent calls of an encoder share forward passes, without waiting for one another.

The first caller that finds the encoder idle encodes what is queued, its own texts included; calls that arrive
meanwhile form the next batch, which one of them encodes. There is no timer and no thread, so a lone call starts at once
and nothing is lost when a caller is interrupted: the others take over.
"""

import itertools
import threading
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from corpora.encoders.per_process import PerProcess

BATCH_TEXTS = 64  # texts at most that calls are gathered into; a longer call is a batch of its own
_CHECK_SECONDS = 0.5  # between two looks whether the caller that encodes was interrupted before it woke the next

Vectors = NDArray[np.float32]
Encode = Callable[[list[str]], Vectors]


class _Call:
    """One call: its texts, and then their vectors or its error."""

    def __init__(self, texts: list[str]):
        self.texts = texts
        self.vectors: Vectors | None = None
        self.error: Exception | None = None
        self.changed = threading.Event()

    @property
    def done(self) -> bool:
        return self.vectors is not None or self.error is not None


class _State:
    """The calls of one process, in their order, and the lock of the one that encodes."""

    def __init__(self) -> None:
        self.encoding = threading.Lock()
        self.calls: dict[int, _Call] = {}  # every step on it is one operation of dict, and so atomic
        self.numbers = itertools.count()


class Gathering:
    """An encoder whose concurrent calls are gathered. Safe under threads; a forked process starts with an empty queue.

    Args:
        encode: Returns the vectors of n texts, shape (n, d); called by one thread at a time.
        texts: Texts gathered into one call of `encode` at most.
    """

    def __init__(self, encode: Encode, *, texts: int = BATCH_TEXTS):
        self._encode, self._texts = encode, texts
        self._state = PerProcess(_State)  # a fork while a thread encodes copies a lock that nobody will release

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of `texts`, shape (n, d).

        An error of `encode` is raised by the call whose texts caused it: the other calls of its batch are encoded one
        by one.
        """
        state = self._state()
        call, number = _Call(list(texts)), next(state.numbers)
        try:
            state.calls[number] = call
            while not call.done:
                if state.encoding.acquire(blocking=False):
                    try:
                        if not call.done:
                            self._encode_batch(state)
                    finally:
                        state.encoding.release()
                        _wake_first(state)
                else:
                    call.changed.wait(_CHECK_SECONDS)
                    call.changed.clear()
        finally:
            state.calls.pop(number, None)
            if not call.done:  # interrupted, perhaps after it was woken to encode
                _wake_first(state)
        if call.error is not None:
            raise call.error
        assert call.vectors is not None
        return call.vectors

    def _encode_batch(self, state: _State) -> None:
        batch: dict[int, _Call] = {}
        size = 0
        for number, call in list(state.calls.items()):
            if batch and size + len(call.texts) > self._texts:
                break
            batch[number] = call
            size += len(call.texts)
        try:
            _deliver(state, batch, self._encode([text for call in batch.values() for text in call.texts]))
        except Exception as error:  # noqa: BLE001 (raised by the call that caused it)
            for number, call in batch.items():
                try:
                    if len(batch) == 1:
                        raise error
                    _deliver(state, {number: call}, self._encode(call.texts))
                except Exception as own:  # noqa: BLE001
                    call.error = own
                    _finish(state, number, call)


def _deliver(state: _State, batch: dict[int, _Call], vectors: Vectors) -> None:
    start = 0
    if len(vectors) != sum(len(call.texts) for call in batch.values()):
        raise ValueError(f"{len(vectors)} vectors for {sum(len(call.texts) for call in batch.values())} texts")
    for number, call in batch.items():
        call.vectors = vectors[start : start + len(call.texts)]
        start += len(call.texts)
        _finish(state, number, call)


def _finish(state: _State, number: int, call: _Call) -> None:
    state.calls.pop(number, None)
    call.changed.set()


def _wake_first(state: _State) -> None:
    """Let the first waiting call encode; calls that come after this look for themselves."""
    for call in list(state.calls.values())[:1]:
        call.changed.set()
