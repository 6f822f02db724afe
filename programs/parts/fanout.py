"""Independent LM calls of one step, made side by side."""

import contextvars
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import dspy

from programs.parts.meter import metered, record

Result = TypeVar("Result")


def fanout(tasks: Sequence[Callable[[], Result]], *, width: int = 8) -> list[Result]:
    """Run `tasks` at most `width` at a time and return their results in the order given.

    Trace entries and counts are joined in the same order, so that an optimizer which picks demonstrations by trace
    order sees the same trace on every run. All tasks together count as the rounds of the longest one.

    Raises:
        Exception: The first task (in the order given) that failed, after all have ended.
    """
    if len(tasks) <= 1:
        return [task() for task in tasks]

    def run(task: Callable[[], Result]) -> tuple[Callable[[], Result], list[Any], dict[str, float]]:
        with metered() as meter, dspy.context(trace=[]):
            outcome = _settle(task)
            return outcome, list(dspy.settings.trace or []), meter.counts()

    with ThreadPoolExecutor(max_workers=min(width, len(tasks)), thread_name_prefix="fanout") as pool:
        futures = [pool.submit(contextvars.copy_context().run, run, task) for task in tasks]
    outcomes = [future.result() for future in futures]

    trace = dspy.settings.trace
    rounds = max(counts.pop("rounds") for _, _, counts in outcomes)
    for _, entries, counts in outcomes:
        if trace is not None:
            trace.extend(entries)
        record(**counts)
    record(rounds=rounds)
    return [outcome() for outcome, _, _ in outcomes]


def _settle(task: Callable[[], Result]) -> Callable[[], Result]:
    """Run a task and return how it ended: a function that gives its result or raises its error."""
    try:
        result = task()
    except Exception as error:  # noqa: BLE001 - kept and raised again by the caller, after all costs are counted
        failure = error

        def fail() -> Result:
            raise failure

        return fail
    return lambda: result
