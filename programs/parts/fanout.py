"""Independent LM calls of one step, made in parallel."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import dspy

from programs.parts.meter import Meter, metered, record_parallel
from programs.parts.threads import Ended, caught, run_all

WIDTH = 8  # calls of one question at a time

Result = TypeVar("Result")
First = TypeVar("First")
Second = TypeVar("Second")


def fanout(tasks: Sequence[Callable[[], Result]], *, width: int = WIDTH) -> list[Result]:
    """Run `tasks`, at most `width` at a time, and return their results in submission order.

    Trace entries and counts are joined in the same order, so that an optimizer that picks demonstrations by trace
    order sees the same trace on every run. All tasks together count as many sequential rounds as the longest one.

    Raises:
        BaseException: What the first failed task in submission order raised; after all tasks have ended.
    """
    if len(tasks) <= 1:
        return [task() for task in tasks]

    def run(task: Callable[[], Result]) -> tuple[Ended[Result], list[Any], Meter]:
        with metered() as meter, dspy.context(trace=[]):
            return caught(task), list(dspy.settings.trace or []), meter

    finished = [end.result() for end in run_all([partial(run, task) for task in tasks], width=width, name="fanout")]

    trace = dspy.settings.trace
    for _, entries, _ in finished:
        if trace is not None:
            trace.extend(entries)
    record_parallel([meter for _, _, meter in finished])
    return [end.result() for end, _, _ in finished]


def in_parallel(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """Run two tasks as `fanout` does and return both results."""
    tasks: list[Callable[[], Any]] = [first, second]
    one, other = fanout(tasks)
    return one, other


def sequential_calls(program: dspy.Module) -> int:
    """Return the most LM calls in sequence that a program makes for one question; all its calls if it names none."""
    most: int = getattr(program, "max_sequential_calls", program.max_calls)()
    return most
