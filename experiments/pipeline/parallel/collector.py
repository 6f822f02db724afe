"""Collect the answers of a session: write rows, and decide when the session is to end early."""

import contextlib
from collections import Counter
from collections.abc import Callable

from experiments.pipeline.parallel.messages import WorkerDied
from experiments.pipeline.parallel.process_pool import ProcessPool
from experiments.pipeline.parallel.session import Answered, Asked
from experiments.pipeline.parallel.thread_pool import Outcome, ThreadPool
from programs.lms.calls.control import GRACE, Control
from signatures.common.errors import UserError

Pool = ThreadPool[Asked, Answered] | ProcessPool[Asked, Answered]


class Collector:
    """Writes the rows of a session, and aborts it if the LM, or the judge, does not answer.

    Questions may fail with a user error (e.g. an unreachable server) as long as the LM answers other calls. The session
    is aborted if as many as there are threads fail before the first answer; they then get no rows. Later it is aborted
    after twice as many consecutive ones during which no call was answered.

    Args:
        write: Receives what has a row.
        threads: Questions in progress at a time.
        model: The task LM.
    """

    def __init__(self, write: Callable[[Answered], None], threads: int, model: str):
        self._write, self._threads, self._model = write, threads, model
        self._working = False
        self._silent: Counter[str] = Counter()  # consecutive failures of each LM without an answer
        self._held: list[Answered] = []  # failed before the first answer
        self.stopped: str | None = None

    def add(self, outcome: Outcome[Asked, Answered]) -> None:
        """Write the row of an outcome, or record why the run stops.

        Raises:
            UserError: The session is aborted.
            BaseException: An error outside the program, such as a metric that cannot score.
        """
        if outcome.result is None:
            error = outcome.error
            # Engines stop a run (a spent budget) with a BaseException, because optimizers catch Exceptions.
            if error is None or isinstance(error, Exception | SystemExit):
                raise error or RuntimeError("A question ended with neither result nor error.")
            self.stopped = f"{type(error).__name__}: {error}"
            return
        answered = outcome.result
        if answered.fault is None:
            self._working = self._working or answered.row["error"] is None
            self._silent.clear()
        else:
            self._count_failure(answered.fault, answered)
        self._held.append(answered)
        if self._working or answered.fault is None:
            self.write_held()

    def _count_failure(self, error: UserError, answers: Answered) -> None:
        """Raise the error if its LM has not answered for too long."""
        model = getattr(error, "model", None) or self._model
        working = answers.after[model] > 0 or (self._working and model == self._model)
        self._working = self._working or (working and model == self._model)
        self._silent[model] = 0 if answers.after[model] > answers.before[model] else self._silent[model] + 1
        if self._silent[model] >= (2 if working else 1) * self._threads:
            raise error

    def write_held(self) -> None:
        """Write the rows that were held back until the LM answers."""
        for answered in self._held:
            self._write(answered)
        self._held = []


def collect(pool: Pool, collector: Collector, control: Control, say: Callable[[str], None]) -> bool:
    """Collect all outcomes; return whether Ctrl-C stopped the session."""
    try:
        for outcome in pool:
            collector.add(outcome)
            if collector.stopped:
                pool.stop()
    except KeyboardInterrupt:
        in_progress = pool.stop()
        control.stop()
        with contextlib.suppress(KeyboardInterrupt):
            if in_progress:
                say(
                    f"Stopping: no further LM call is sent, and calls in flight have {GRACE:g} s. Of the {in_progress} "
                    "questions in progress those that need more are dropped."
                )
            _collect_last(pool, collector)
        return True
    except WorkerDied:
        pool.stop()
        _collect_last(pool, collector)  # those of the other workers
        raise
    except BaseException:
        pool.stop()
        control.stop(grace=0.0)
        for _ in pool.within(GRACE):  # a process that ends while a thread computes in a library crashes
            pass
        raise
    return False


def _collect_last(pool: Pool, collector: Collector) -> None:
    for outcome in pool.within(GRACE):
        if outcome.result is not None:
            collector.add(outcome)
