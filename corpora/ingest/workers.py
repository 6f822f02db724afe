"""Read documents in processes: several at a time; a file that crashes or hangs its reader costs that file only.

On Linux a process may take a limited amount of memory: a PDF of 3 kB can take gigabytes.
"""

import logging
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeVar

from signatures.common.errors import UserError, one_line

Task = TypeVar("Task")
Result = TypeVar("Result")

SECONDS = 300.0  # that one task may take
MEMORY = 1024  # MiB that a process may take; one with nothing to do takes 60
_AHEAD = 64  # results that may wait for an earlier one
_MOST_WAITING = 256 << 20  # bytes of those
_WORN = 0.5  # of the memory: a process that took more may not have given it back


@dataclass
class _Worker:
    """A process, the pipe to it, and what it is doing."""

    process: BaseProcess
    pipe: Connection
    place: int = -1  # of its task
    until: float = 0.0


def run_in_processes(
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    processes: int,
    *,
    seconds: float = SECONDS,
    memory: int = MEMORY,
) -> Iterator[Result | UserError]:
    """Yield the result of each task in their order, or the UserError that it raised, or that says why there is none.

    A task whose process ends, or that takes too long or too much memory, costs itself only. When the iteration ends,
    all processes end.

    Args:
        work: A function of a module, whose arguments and results can be pickled.
        tasks: Its arguments.
        processes: How many at a time, at least 1.
        seconds: That one task may take.
        memory: MiB that one process may take, on Linux.
    """
    results: dict[int, bytes] = {}
    workers: list[_Worker] = []
    begun = 0
    try:
        for place in range(len(tasks)):
            while place not in results:
                most = place + (_AHEAD if sum(map(len, results.values())) < _MOST_WAITING else 1)
                while begun < min(len(tasks), most) and (worker := _free(workers, processes, work, memory)):
                    worker.place, worker.until = begun, time.monotonic() + seconds
                    worker.pipe.send(tasks[begun])
                    begun += 1
                for worker in _ready(workers):
                    done = worker.place
                    results[done] = _received(worker, workers, seconds, memory)
            yield ForkingPickler.loads(results.pop(place))
    finally:
        for worker in workers:
            _end(worker)


def _free(workers: list[_Worker], processes: int, work: Callable[[Any], Any], memory: int) -> _Worker | None:
    """Return a worker that does nothing, a new one if there are fewer than `processes`; None if all are at work."""
    for worker in workers:
        if worker.place < 0:
            return worker
    if len(workers) >= processes:
        return None
    # Forking a process with threads of OpenVINO or tantivy may deadlock.
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, work, memory), daemon=True)
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


def _received(worker: _Worker, workers: list[_Worker], seconds: float, memory: int) -> bytes:
    """Return the result of a worker, as it was sent; one that ended, took too long or is worn out is removed."""
    if worker.pipe.poll():
        with suppress(EOFError, OSError):
            result = worker.pipe.recv_bytes()
            worker.place = -1
            if worker.pipe.recv():
                workers.remove(worker)
                _end(worker)
            return result
        why = f"its reader crashed: the file is damaged, or needs more memory than {_limit(memory)}"
    else:
        why = f"its reader took more than {seconds:g} seconds"
    workers.remove(worker)
    _end(worker)
    return bytes(ForkingPickler.dumps(UserError(why)))


def _limit(memory: int) -> str:
    return f"{memory:,} MiB (if you trust it, raise the limit with --memory)"


def _end(worker: _Worker) -> None:
    worker.process.kill()
    worker.process.join()
    worker.pipe.close()


def _serve(pipe: Connection, work: Callable[[Any], Any], memory: int) -> None:
    """Answer tasks until the other end of the pipe is closed; Ctrl-C is left to the process that waits."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    logging.disable()  # libraries write lines about what is wrong in a file, thousands if it wants that
    warnings.simplefilter("ignore")
    too_much = bytes(ForkingPickler.dumps(UserError(f"it needs more memory than {_limit(memory)}")))
    peak = _limit_memory(memory)
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        answer = too_much
        with suppress(MemoryError):
            answer = _answer(work, task)
        pipe.send_bytes(answer)
        pipe.send(peak() > _WORN * memory)


def _answer(work: Callable[[Any], Any], task: Any) -> bytes:
    result: Any
    try:
        result = work(task)
    except UserError as error:
        result = error
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - libraries meet hostile files with errors of all kinds
        result = UserError(f"it cannot be read ({type(error).__name__}: {one_line(error, 100)})")
    return bytes(ForkingPickler.dumps(result))


def _limit_memory(memory: int) -> Callable[[], int]:
    """Limit the memory of this process; return what says how many MiB it has taken at most, 0 if there is no limit."""
    if sys.platform != "linux":  # others count only a part of it, or nothing
        return lambda: 0
    import resource

    for kind, most in ((resource.RLIMIT_DATA, memory << 20), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))
    return lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
