"""How many processes a run is divided among."""

import contextlib
import multiprocessing
import os
import sys
from collections.abc import Iterator

from experiments.runs.config import Connected
from signatures.common.errors import UserError

_THREADS, _QUESTIONS = 8, 50  # of each process at least, or it costs more than it gains


def can_fork() -> bool:
    """Return whether this system starts processes as copies; on macOS its own libraries forbid it."""
    return "fork" in multiprocessing.get_all_start_methods() and sys.platform != "darwin"


def processes_for(
    wanted: int | None,
    *,
    threads: int,
    questions: int,
    connection: Connected,
    judge: Connected | None = None,
    local_models: bool = False,
) -> int:
    """Return how many processes ask the questions.

    Args:
        wanted: By the user; None means one per core if that is faster: every LM is on a server, and each process has at
            least 8 threads and 50 questions.
        threads: Questions in progress at a time, over all processes.
        questions: To ask.
        connection: The task LM.
        judge: The judge LM.
        local_models: Whether metrics load a model into the process.

    Raises:
        UserError: Several are wanted, but this system cannot fork, or there are fewer threads.
    """
    if wanted is not None:
        if wanted > 1 and not can_fork():
            raise UserError(f"processes must be 1 on this system, got {wanted}: use threads, or several machines.")
        if wanted > threads:
            raise UserError(f"threads ({threads}) must be at least processes ({wanted}): each process has one or more.")
        return wanted
    lms = [connection, *([judge] if judge else [])]
    if local_models or not can_fork() or not all(getattr(item.lm, "remote", False) for item in lms):
        return 1
    return max(1, min(_cores(), threads // _THREADS, questions // _QUESTIONS))


@contextlib.contextmanager
def one_core_each(threads: int) -> Iterator[None]:
    """Let libraries that compute use one core per call in the block, if there are at least as many threads as cores.

    With more they spend most of their time waiting for each other, and they wait actively. `OMP_NUM_THREADS` set by the
    user holds in any case; models that are loaded already keep their threads.
    """
    if "OMP_NUM_THREADS" in os.environ or threads < _cores():
        yield
        return
    from threadpoolctl import threadpool_limits

    os.environ["OMP_NUM_THREADS"] = "1"  # for libraries that are loaded in the block
    try:
        with threadpool_limits(1):
            yield
    finally:
        del os.environ["OMP_NUM_THREADS"]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
