"""DSPy's own evaluations on our threads, while something is compiled.

DSPy's executor (3.4.1) starts threads without the context of the caller, so that their LM calls are counted nowhere and
cannot be stopped; it sends a question again that takes more than two minutes, and once more each time; it ends an
evaluation at ten errors. `on_our_threads` replaces it: contexts are copied, each question runs once, an error is one
failed question, and what is no Exception (a spent budget, a stop) or is a `UserError` (no server) ends the evaluation.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import dspy
import dspy.evaluate.evaluate
import dspy.predict.parallel
from dspy.utils.parallelizer import ParallelExecutor

from optimizers.teleprompters.recording import Recording
from programs.parts.threads import run_all
from signatures.common.errors import UserError, user_error_within

_MODULES = (dspy.evaluate.evaluate, dspy.predict.parallel)
_lock = threading.Lock()
_users = [0]


class ContextExecutor(ParallelExecutor):
    """Runs a function on each item of a list, in threads that have the context of the caller."""

    def execute(self, function: Callable[[Any], Any], data: Sequence[Any]) -> list[Any]:
        """Return the results in order, None for an item that failed."""
        recordings = [each for each in dspy.settings.get("callbacks") or () if isinstance(each, Recording)]

        def run(item: Any) -> Any:
            try:
                return function(item)
            finally:
                for recording in recordings:
                    recording.ran()

        tasks = [partial(run, item) for item in data]
        results = []
        for index, ended in enumerate(run_all(tasks, width=self.num_threads, name="dspy")):
            error = ended.error
            if error is not None and (isinstance(error, UserError) or not isinstance(error, Exception)):
                raise error
            if isinstance(error, Exception):
                if user_error := user_error_within(error):
                    raise user_error
                self.failed_indices.append(index)
                self.exceptions_map[index] = error
            results.append(ended.value)
        return results


@contextlib.contextmanager
def on_our_threads() -> Iterator[None]:
    """Let `dspy.Evaluate` and `dspy.Parallel` run on threads with the context of the caller, inside the block."""
    with _lock:
        _users[0] += 1
        _set(ContextExecutor)
    try:
        yield
    finally:
        with _lock:
            _users[0] -= 1
            if not _users[0]:
                _set(ParallelExecutor)


def _set(executor: type[ParallelExecutor]) -> None:
    for module in _MODULES:
        module.ParallelExecutor = executor
