import threading

import dspy
import pytest

from programs.parts.meter import metered, record
from programs.parts.threads import fanout, in_parallel


def test_results_and_trace_come_in_the_order_given_whatever_finishes_first():
    second_done = threading.Event()

    def first():
        second_done.wait(10)
        dspy.settings.trace.append("first")
        return 1

    def second():
        dspy.settings.trace.append("second")
        second_done.set()
        return 2

    with dspy.context(trace=[]):
        assert fanout([first, second]) == [1, 2]
        assert dspy.settings.trace == ["first", "second"]


def test_counts_add_up_and_rounds_are_those_of_the_longest_task():
    def calls(number):
        return lambda: [record(calls=1, rounds=1) for _ in range(number)]

    with metered() as meter:
        fanout([calls(1), calls(3), calls(2)])
    assert (meter.calls, meter.rounds) == (6, 3)


def test_the_first_failure_in_order_is_raised_and_its_costs_are_counted():
    def fail(text):
        def task():
            record(calls=1, rounds=1)
            raise ValueError(text)

        return task

    with metered() as meter, pytest.raises(ValueError, match="one"):
        fanout([lambda: 0, fail("one"), fail("two")])
    assert meter.calls == 2


def test_a_single_task_needs_no_thread():
    with metered() as meter:
        assert fanout([lambda: record(calls=1, rounds=1) or threading.current_thread().name]) == ["MainThread"]
    assert meter.rounds == 1


def test_an_inner_meter_is_its_own():
    with metered() as outer:
        with metered() as inner:
            record(calls=1)
        record(calls=2)
    assert (outer.calls, inner.calls) == (2, 1)
    assert "_lock" not in outer.counts()


def test_two_tasks_in_parallel_return_both_results_in_order():
    first_started = threading.Event()

    def second():
        assert first_started.wait(10)
        return "second"

    assert in_parallel(lambda: first_started.set() or "first", second) == ("first", "second")


def test_threads_do_not_keep_the_process_from_exiting():
    assert fanout([lambda: threading.current_thread().daemon] * 3) == [True] * 3


class Ended(BaseException):
    """As a spent budget."""


def test_what_is_no_exception_is_raised_after_its_costs_are_counted():
    def end():
        record(calls=1, rounds=1)
        raise Ended

    with metered() as meter, pytest.raises(Ended):
        fanout([end, lambda: record(calls=1, rounds=1)])
    assert meter.calls == 2
