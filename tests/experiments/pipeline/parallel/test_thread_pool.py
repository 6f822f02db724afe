"""Ctrl-C while a thread pool is iterated."""

import signal

import pytest

from experiments.pipeline.parallel.thread_pool import Outcome, ThreadPool


def test_ctrl_c_raises_between_two_outcomes_and_loses_none():
    before = signal.getsignal(signal.SIGINT)
    pool = ThreadPool(lambda item: item, range(5), threads=2)
    seen = []
    with pytest.raises(KeyboardInterrupt):
        for outcome in pool:
            signal.raise_signal(signal.SIGINT)
            seen.append(outcome.item)  # reached: what is done with an outcome is not interrupted
    assert len(seen) == 1
    assert signal.getsignal(signal.SIGINT) is before
    seen += [outcome.item for outcome in pool.within(60)]
    assert sorted(seen) == [0, 1, 2, 3, 4]


def test_ctrl_c_after_the_last_outcome_is_not_lost(monkeypatch):
    pool, seen = ThreadPool(lambda item: item, range(1), threads=1), []
    after = pool._next

    def press_at_the_end(pressed: list[int]) -> Outcome[int, int] | None:
        if (outcome := after(pressed)) is None:
            signal.raise_signal(signal.SIGINT)
        return outcome

    monkeypatch.setattr(pool, "_next", press_at_the_end)
    with pytest.raises(KeyboardInterrupt):
        seen += [outcome.item for outcome in pool]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_raises_at_once():
    before = signal.getsignal(signal.SIGINT)
    seen = []
    with pytest.raises(KeyboardInterrupt):
        for outcome in ThreadPool(lambda item: item, range(2), threads=1):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            seen.append(outcome.item)
    assert (seen, signal.getsignal(signal.SIGINT)) == ([], before)


def test_an_error_in_the_loop_restores_the_handler():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError):
        for outcome in ThreadPool(lambda item: item, range(2), threads=1):
            1 / outcome.item
    assert signal.getsignal(signal.SIGINT) is before
