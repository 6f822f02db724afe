"""Calls that wait for a server end when the work is stopped or a budget is spent."""

import threading
from contextvars import copy_context

import pytest

from programs.lms.calls import control
from programs.lms.calls.budget import BudgetExceeded
from programs.lms.calls.control import Stopped, abortable, checked_calls, controlled
from tests.programs.fakes import forks, in_forks


class Blocked:
    """A call that waits until it is aborted, and fails then, as a read from a closed socket does."""

    def __init__(self):
        self.waiting, self.aborted = threading.Event(), threading.Event()

    def __call__(self):
        with abortable(self.aborted.set):
            self.waiting.set()
            assert self.aborted.wait(20)
            raise OSError("the socket was closed")


def test_a_check_that_raises_ends_the_call_with_its_error():
    def spent():
        raise BudgetExceeded("0 seconds")

    with checked_calls(spent), pytest.raises(BudgetExceeded, match="0 seconds"):
        Blocked()()


@pytest.mark.slow
def test_stopped_work_ends_all_its_calls_and_no_others(monkeypatch):
    monkeypatch.setattr(control, "GRACE", 0.0)
    ended, lock, other = [], threading.Lock(), Blocked()

    def ask(call):
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - what ends a call is not an Exception
            with lock:
                ended.append(type(error))

    def start(call):
        thread = threading.Thread(target=copy_context().run, args=(ask, call), daemon=True)
        thread.start()
        assert call.waiting.wait(20)
        return thread

    with checked_calls(lambda: None):
        stranger = start(other)
    with controlled() as stopping, checked_calls(lambda: None):
        threads = [start(Blocked()) for _ in range(5)]
        stopping.stop()
        for thread in threads:
            thread.join(20)
    assert ended == [Stopped] * 5
    assert not other.aborted.is_set()
    other.aborted.set()
    stranger.join(20)
    assert ended[5:] == [OSError]


def test_an_error_of_the_call_itself_stays_and_nothing_is_watched_afterwards():
    with checked_calls(lambda: None), pytest.raises(KeyError), abortable(lambda: None):
        raise KeyError("own")
    assert not control._watcher()._calls
    with abortable(pytest.fail):  # outside of a checked call
        pass


@forks
def test_a_fork_watches_its_own_calls():
    def work():
        with pytest.raises(Stopped), checked_calls(lambda: (_ for _ in ()).throw(Stopped("now"))):
            Blocked()()
        return 0

    with checked_calls(lambda: None), abortable(lambda: None):
        assert in_forks(work, 1) == [0]
