"""Independent LM calls of one step, made in parallel."""

import contextvars
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import dspy

from programs.parts.meter import Meter, metered, record, record_thinking, record_unreadable

WIDTH = 8  # calls of one question at a time

Result = TypeVar("Result")
First = TypeVar("First")
Second = TypeVar("Second")


def fanout(tasks: Sequence[Callable[[], Result]], *, width: int = WIDTH) -> list[Result]:
    """Run `tasks`, at most `width` at a time, and return their results in submission order.

    Trace entries and counts are joined in the same order, so that an optimizer that picks demonstrations by trace
    order sees the same trace on every run. All tasks together count as many sequential rounds as the longest one.

    Raises:
        Exception: The exception of the first failed task in submission order; after all tasks have ended.
    """
    if len(tasks) <= 1:
        return [task() for task in tasks]

    def run(task: Callable[[], Result]) -> tuple[Callable[[], Result], list[Any], Meter]:
        with metered() as meter, dspy.context(trace=[]):
            result = _caught(task)
            return result, list(dspy.settings.trace or []), meter

    with ThreadPoolExecutor(max_workers=min(width, len(tasks)), thread_name_prefix="fanout") as pool:
        futures = [pool.submit(contextvars.copy_context().run, run, task) for task in tasks]
    finished = [future.result() for future in futures]

    trace = dspy.settings.trace
    rounds = 0.0
    for _, entries, meter in finished:
        if trace is not None:
            trace.extend(entries)
        counts = meter.counts()
        rounds = max(rounds, counts.pop("rounds"))
        record(**counts)
        record_thinking(*meter.thinking())
        record_unreadable(meter.unreadable)
    record(rounds=rounds)
    return [result() for result, _, _ in finished]


def in_parallel(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """Run two tasks as `fanout` does and return both results."""
    tasks: list[Callable[[], Any]] = [first, second]
    one, other = fanout(tasks)
    return one, other


def _caught(task: Callable[[], Result]) -> Callable[[], Result]:
    """Run a task and return a function that returns its result or raises its exception."""
    try:
        result = task()
    except Exception as error:  # noqa: BLE001 - raised again by the caller, after all costs are counted
        failure = error

        def fail() -> Result:
            raise failure

        return fail
    return lambda: result
