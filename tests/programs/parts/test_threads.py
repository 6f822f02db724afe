"""Waiting for threads: Ctrl-C ends it, whichever thread the system gives the signal to."""

import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from programs.parts.threads import result_of, run_all, wait_for

LONG = 30  # seconds; only a wait that Ctrl-C does not end takes them


def interrupt_here() -> None:
    """Let this thread get the signal, as the system may choose to."""
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)


def run(work: Callable[[], None]) -> None:
    run_all([work], width=1, name="test")


def wait(work: Callable[[], None]) -> None:
    done = threading.Event()
    threading.Thread(target=lambda: (work(), done.set()), daemon=True).start()
    wait_for(done)


def resolve(work: Callable[[], None]) -> None:
    future: Future[None] = Future()
    threading.Thread(target=lambda: (work(), future.set_result(None)), daemon=True).start()
    result_of(future)


@pytest.mark.parametrize("waiting", [run, wait, resolve])
def test_a_wait_ends_when_another_thread_gets_the_signal(waiting):
    released, finished = threading.Event(), threading.Event()

    def work() -> None:
        interrupt_here()
        released.wait(LONG)
        finished.set()

    try:
        with pytest.raises(KeyboardInterrupt):
            waiting(work)
        assert not finished.is_set()
    finally:
        released.set()
