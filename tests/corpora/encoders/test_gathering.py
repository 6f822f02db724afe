import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from corpora.encoders.gathering import Gathering

ROOT = Path(__file__).parents[3]


def lengths(texts: list[str]) -> np.ndarray:
    return np.array([[len(text), 1] for text in texts], dtype=np.float32).reshape(len(texts), 2)


class Slow:
    """An encoder whose first batch waits until it is released; it remembers its batches."""

    def __init__(self, encode: Callable[[list[str]], np.ndarray] = lengths):
        self.encode = encode
        self.batches: list[list[str]] = []
        self.started, self.release = threading.Event(), threading.Event()

    def __call__(self, texts: list[str]) -> np.ndarray:
        self.batches.append(texts)
        if len(self.batches) == 1:
            self.started.set()
            assert self.release.wait(30)
        return self.encode(texts)


def wait_for(condition: Callable[[], bool]) -> None:
    never = threading.Event()
    for _ in range(30_000):
        if condition():
            return
        never.wait(0.001)
    raise AssertionError("it did not happen")


def gathered(slow: Slow, calls: list[list[str]], **options: int) -> tuple[list[Future], Gathering]:
    """Call with the first texts, then, while these are encoded, with all others in their order."""
    gathering = Gathering(slow, **options)
    pool = ThreadPoolExecutor(len(calls))
    futures = [pool.submit(gathering, calls[0])]
    assert slow.started.wait(30)
    for number, each in enumerate(calls[1:], start=2):
        futures.append(pool.submit(gathering, each))
        wait_for(lambda count=number: len(gathering._state().calls) == count)
    slow.release.set()
    pool.shutdown(wait=True)
    return futures, gathering


def test_a_lone_call_is_encoded_at_once_and_nothing_is_kept():
    slow = Slow()
    slow.release.set()
    gathering = Gathering(slow)
    assert gathering(["ab", "c"]).tolist() == [[2, 1], [1, 1]]
    assert gathering([]).shape == (0, 2)
    assert slow.batches == [["ab", "c"], []]
    assert not gathering._state().calls


def test_calls_that_arrive_while_one_is_encoded_are_the_next_batch():
    texts = [[f"{'x' * number}", "y"] for number in range(20)]
    slow = Slow()
    futures, gathering = gathered(slow, texts)
    assert [future.result().tolist() for future in futures] == [[[number, 1], [1, 1]] for number in range(20)]
    assert slow.batches == [texts[0], [text for call in texts[1:] for text in call]]
    assert not gathering._state().calls


def test_a_batch_has_a_limit_and_a_longer_call_is_a_batch_of_its_own():
    slow = Slow()
    texts = [["a"], ["b"] * 3, ["c"], ["d"] * 9, ["e"]]
    futures, _ = gathered(slow, texts, batch=4)
    assert [len(future.result()) for future in futures] == [1, 3, 1, 9, 1]
    assert slow.batches == [["a"], ["b", "b", "b", "c"], ["d"] * 9, ["e"]]


def test_an_error_is_raised_by_the_call_that_caused_it():
    def picky(texts: list[str]) -> np.ndarray:
        for text in texts:
            if text.startswith("bad"):
                raise ValueError(text)
        return lengths(texts)

    futures, _ = gathered(Slow(picky), [["a"], ["bb"], ["bad1"], ["ccc"], ["bad2"]])
    assert [future.exception() and str(future.exception()) for future in futures] == [None, None, "bad1", None, "bad2"]
    assert futures[3].result().tolist() == [[3, 1]]


def test_too_few_results_are_an_error_and_never_those_of_another_call():
    futures, _ = gathered(Slow(lambda texts: lengths(texts)[:1]), [["a"], ["b"], ["c", "d"]])
    assert futures[1].result().tolist() == [[1, 1]]
    with pytest.raises(ValueError, match="1 results for 2 items"):
        futures[2].result()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_when_the_encoding_thread_is_interrupted_the_others_go_on(kind):
    """Ctrl-C and the end of a thread are BaseExceptions; only the thread that they strike ends."""

    def interrupted(texts: list[str]) -> np.ndarray:
        if threading.current_thread() in struck:
            raise kind
        return lengths(texts)

    struck: set[threading.Thread] = set()
    slow = Slow(interrupted)
    gathering = Gathering(slow)
    ended: list[BaseException | list] = []

    def first() -> None:
        try:
            gathering(["a"])
        except BaseException as error:  # noqa: BLE001
            ended.append(error)

    thread = threading.Thread(target=first)
    struck.add(thread)
    thread.start()
    assert slow.started.wait(30)
    with ThreadPoolExecutor(5) as pool:
        futures = [pool.submit(gathering, ["x" * number]) for number in range(5)]
        wait_for(lambda: len(gathering._state().calls) == 6)
        slow.release.set()
        assert [future.result(30).tolist() for future in futures] == [[[number, 1]] for number in range(5)]
    thread.join(30)
    assert isinstance(ended[0], kind)
    assert not gathering._state().calls


def test_a_call_interrupted_while_it_waits_passes_its_turn_on():
    slow = Slow()
    gathering = Gathering(slow)
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(gathering, ["a"])
        assert slow.started.wait(30)
        state = gathering._state()

        def waits_and_is_struck() -> None:
            with pytest.raises(KeyboardInterrupt):
                gathering(["struck"])

        original = threading.Event.wait

        def wait(event: threading.Event, timeout: float | None = None) -> bool:
            woken = original(event, timeout)
            if woken and any(call.changed is event and call.items == ["struck"] for call in list(state.calls.values())):
                raise KeyboardInterrupt  # after it was chosen to encode
            return woken

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(threading.Event, "wait", wait)
            second = pool.submit(waits_and_is_struck)
            wait_for(lambda: len(state.calls) == 2)
            third = pool.submit(gathering, ["ccc"])
            wait_for(lambda: len(state.calls) == 3)
            slow.release.set()
            second.result(30)
            assert third.result(30).tolist() == [[3, 1]]
        assert first.result(30).tolist() == [[1, 1]]


FORKED = """
import os, sys, threading
sys.path.insert(0, {root!r})
import numpy as np
from corpora.encoders.gathering import Gathering
from corpora.encoders.query_vectors import QueryVectors

started, release = threading.Event(), threading.Event()
parent = os.getpid()

def encode(texts):
    if os.getpid() == parent and texts == ["a"]:
        started.set()
        release.wait(60)
    return np.array([[float(len(text))] for text in texts], dtype=np.float32)

kept = QueryVectors(Gathering(encode))
thread = threading.Thread(target=lambda: kept(["a"]))
thread.start()
started.wait(60)
kept._lock().acquire()  # as another thread may hold it in the moment of the fork
child = os.fork()
if child == 0:
    threads = [threading.Thread(target=lambda: kept(["bb"])) for _ in range(4)]
    [each.start() for each in threads], [each.join() for each in threads]
    os._exit(0 if kept(["a", "bb"]).tolist() == [[1.0], [2.0]] else 1)
status = os.waitpid(child, 0)[1]
kept._lock().release()
release.set()
thread.join()
sys.exit(os.waitstatus_to_exitcode(status) or (0 if len(kept) == 1 else 2))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_process_forked_while_a_thread_encodes_does_not_wait_for_it():
    done = subprocess.run([sys.executable, "-c", FORKED.format(root=str(ROOT))], capture_output=True, timeout=120)
    assert done.returncode == 0, (done.returncode, done.stderr.decode())


CTRL_C = """
import os, signal, sys, threading
sys.path.insert(0, {root!r})
import numpy as np
from corpora.encoders.gathering import Gathering

waiting = []

def encode(texts):
    if threading.current_thread() is threading.main_thread():
        threads.extend(threading.Thread(target=lambda n=n: waiting.append(gathering(["x" * n]))) for n in range(8))
        for thread in threads:
            thread.start()
        while len(gathering._state().calls) < 9:
            pass
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            pass
    return np.array([[float(len(text))] for text in texts], dtype=np.float32)

threads = []
gathering = Gathering(encode)
try:
    gathering(["main"])
except KeyboardInterrupt:
    for thread in threads:
        thread.join()
    sys.exit(0 if sorted(v.tolist() for v in waiting) == [[[float(n)]] for n in range(8)] else 3)
sys.exit(4)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGINT"), reason="this system has no signals")
def test_ctrl_c_during_a_batch_ends_the_main_thread_alone():
    done = subprocess.run([sys.executable, "-c", CTRL_C.format(root=str(ROOT))], capture_output=True, timeout=120)
    assert done.returncode == 0, (done.returncode, done.stderr.decode())
