"""Read documents in processes: several at a time, and a file that crashes or hangs its reader costs that file only."""

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from signatures.common.errors import UserError

Task = TypeVar("Task")
Result = TypeVar("Result")

_AHEAD = 4  # tasks per process that are started before their turn


def run_in_processes(
    work: Callable[[Task], Result], tasks: Sequence[Task], processes: int
) -> Iterator[Result | UserError]:
    """Yield the result of each task in their order, or the UserError that it raised or that its process ended.

    Args:
        work: A function of a module, whose arguments and results can be pickled.
        tasks: Its arguments.
        processes: How many at a time, at least 1.
    """
    waiting = deque(tasks)
    while waiting:
        with _pool(min(processes, len(waiting))) as pool:
            started: deque[Future[Result]] = deque()
            try:
                while waiting:
                    while len(started) < min(len(waiting), _AHEAD * processes):
                        started.append(pool.submit(work, waiting[len(started)]))
                    try:
                        result: Result | UserError = started[0].result()
                    except UserError as error:
                        result = error
                    started.popleft()
                    waiting.popleft()
                    yield result
            except BrokenProcessPool:
                pass
            finally:
                for future in started:
                    future.cancel()
        if waiting:  # one of those started ended its process; the next in turn is tried alone
            yield _alone(work, waiting.popleft())


def _alone(work: Callable[[Task], Result], task: Task) -> Result | UserError:
    with _pool(1) as pool:
        try:
            return pool.submit(work, task).result()
        except UserError as error:
            return error
        except BrokenProcessPool:
            return UserError("its reader crashed: the file is damaged, or needs more memory than there is")


def _pool(processes: int) -> ProcessPoolExecutor:
    # Forking a process with threads of OpenVINO or tantivy may deadlock.
    return ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _ignore_interrupts)


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the process that waits."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
