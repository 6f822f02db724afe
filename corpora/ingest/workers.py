"""Read documents in processes: several at a time; a file that crashes or hangs its reader costs that file only."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from signatures.common.errors import UserError

Task = TypeVar("Task")
Result = TypeVar("Result")

SECONDS = 300.0  # that one task may take
_AHEAD = 64  # results that may wait for an earlier one
_CRASHED = "its reader crashed: the file is damaged, or needs more memory than there is"


@dataclass
class _Worker:
    """A process, the pipe to it, and what it is doing."""

    process: BaseProcess
    pipe: Connection
    place: int = -1  # of its task
    until: float = 0.0


def run_in_processes(
    work: Callable[[Task], Result], tasks: Sequence[Task], processes: int, seconds: float = SECONDS
) -> Iterator[Result | UserError]:
    """Yield the result of each task in their order, or the UserError that it raised, or that says why there is none.

    A task whose process ends, or that takes too long, costs itself only; when the iteration ends, all processes end.

    Args:
        work: A function of a module, whose arguments and results can be pickled; it raises UserError only.
        tasks: Its arguments.
        processes: How many at a time, at least 1.
        seconds: That one task may take.
    """
    results: dict[int, Result | UserError] = {}
    workers: list[_Worker] = []
    begun = 0
    try:
        for place in range(len(tasks)):
            while place not in results:
                while begun < min(len(tasks), place + _AHEAD) and (worker := _free(workers, processes, work)):
                    worker.place, worker.until = begun, time.monotonic() + seconds
                    worker.pipe.send(tasks[begun])
                    begun += 1
                for worker in _ready(workers):
                    done = worker.place
                    results[done] = _received(worker, workers, seconds)
            yield results.pop(place)
    finally:
        for worker in workers:
            _end(worker)


def _free(workers: list[_Worker], processes: int, work: Callable[[Any], Any]) -> _Worker | None:
    """Return a worker that does nothing, a new one if there are fewer than `processes`; None if all are at work."""
    for worker in workers:
        if worker.place < 0:
            return worker
    if len(workers) >= processes:
        return None
    # Forking a process with threads of OpenVINO or tantivy may deadlock.
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, work), daemon=True)
    process.start()
    theirs.close()
    workers.append(_Worker(process, pipe))
    return workers[-1]


def _ready(workers: list[_Worker]) -> list[_Worker]:
    """Wait until a worker has a result, has ended or has taken too long, and return those."""
    busy = [worker for worker in workers if worker.place >= 0]
    now = time.monotonic()
    told = wait([worker.pipe for worker in busy], max(0.0, min(worker.until for worker in busy) - now))
    return [worker for worker in busy if worker.pipe in told or worker.until <= time.monotonic()]


def _received(worker: _Worker, workers: list[_Worker], seconds: float) -> Any:
    """Return the result of a worker; one that ended or took too long is removed."""
    if worker.pipe.poll():
        with suppress(EOFError, OSError):
            result = worker.pipe.recv()
            worker.place = -1
            return result
        result = UserError(_CRASHED)
    else:
        result = UserError(f"its reader took more than {seconds:g} seconds")
    workers.remove(worker)
    _end(worker)
    return result


def _end(worker: _Worker) -> None:
    worker.process.kill()
    worker.process.join()
    worker.pipe.close()


def _serve(pipe: Connection, work: Callable[[Any], Any]) -> None:
    """Answer tasks until the other end of the pipe is closed; Ctrl-C is left to the process that waits."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            result = work(task)
        except UserError as error:
            result = error
        pipe.send(result)
