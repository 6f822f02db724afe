"""The worker of the embedded LM: one thread that decodes the requests of many threads in batches.

Concurrent requests are decoded together, and the shared prefix of their prompts is computed once.
"""

import contextlib
import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import signatures.common.openvino_core  # noqa: F401 - before OpenVINO itself: without telemetry

THREADS = 2
WIDTH = 16  # requests decoded together
GATHER = 0.003  # seconds to wait for further requests before a step, unless the batch is full
CACHE_GB = 2  # keys and values of prompts, including shared prefixes


@dataclass
class Job:
    """One sequence (or, for log-probabilities, one set of beams) to decode."""

    prompt: Any
    config: Any
    result: "Future[list[Any]]" = field(default_factory=Future)


class Worker:
    """A loaded model and the thread that runs it; each worker has its own queue.

    Args:
        model: Folder of the model in the format of the runtime.
        tokenizer: Of the runtime.
        properties: Settings of the runtime, except the number of threads.
        jobs: The first ones; they end with an error, too, if the model cannot be loaded.
    """

    def __init__(self, model: Path, tokenizer: Any, properties: dict[str, Any], jobs: Sequence[Job] = ()):
        # Not SimpleQueue: its `get` with a time limit may never end if the thread is interrupted in it (CPython 3.11).
        self._jobs: queue.Queue[Job | None] = queue.Queue()
        for job in jobs:
            self._jobs.put(job)
        self._lock = threading.Lock()
        self._stopped = False
        self.started = threading.Event()  # the model is loaded, or cannot be
        self._thread = threading.Thread(target=self._work, args=(model, tokenizer, properties), daemon=True, name="lm")
        self._thread.start()

    def submit(self, jobs: list[Job]) -> bool:
        """Queue the jobs and return True; return False if this worker has failed or is stopping."""
        with self._lock:
            if not self._stopped:
                for job in jobs:
                    self._jobs.put(job)
            return not self._stopped

    def stop(self) -> None:
        """Accept no more jobs, and wait until the queued ones are done and the model is freed."""
        with self._lock:
            if not self._stopped:
                self._jobs.put(None)
            self._stopped = True
        self._thread.join()

    def _work(self, model: Path, tokenizer: Any, properties: dict[str, Any]) -> None:
        running: dict[int, tuple[Job, Any]] = {}
        try:
            try:
                pipeline = load(model, tokenizer, properties)
            finally:
                self.started.set()
            number = 0
            while (new := self._gather(len(running))) is not None:
                for job in new:
                    number += 1
                    running[number] = (job, pipeline.add_request(number, job.prompt, job.config))
                pipeline.step()
                for key in [key for key, (job, handle) in running.items() if _ended(job, handle)]:
                    job, handle = running.pop(key)
                    if not job.result.cancelled():
                        job.result.set_result(handle.read_all())
        except BaseException as error:  # noqa: BLE001  (every waiting thread must get the error)
            self._fail(running, error)

    def _fail(self, running: dict[int, tuple[Job, Any]], error: BaseException) -> None:
        """Raise `error` in all waiting threads."""
        jobs = [job for job, _ in running.values()]
        with self._lock:
            self._stopped = True
            with contextlib.suppress(queue.Empty):
                while True:
                    if (job := self._jobs.get_nowait()) is not None:
                        jobs.append(job)
        for job in jobs:
            with contextlib.suppress(Exception):  # it may just have been cancelled
                job.result.set_exception(error)

    def _gather(self, running: int) -> list[Job] | None:
        """Return the jobs to add before the next step, None to stop; blocks only when idle."""
        new: list[Job] = []
        with contextlib.suppress(queue.Empty):
            while running + len(new) < WIDTH:
                # The runtime holds the interpreter lock during a step; other threads run during this wait.
                idle = running + len(new) == 0
                job = self._jobs.get() if idle else self._jobs.get(timeout=GATHER)
                if job is None:
                    if running or new:
                        self._jobs.put(None)
                        break
                    return None
                new.append(job)
        return new


def load(model: Path, tokenizer: Any, properties: dict[str, Any]) -> Any:
    """Return the runtime with the model loaded, after about 3 s.

    Not to be called in the main thread: that would keep the runtime's stack for signal handlers after it has been
    closed, and the next Ctrl-C would crash the process (see `signatures.common.openvino_core`).
    """
    import openvino_genai

    scheduler = openvino_genai.SchedulerConfig()
    scheduler.enable_prefix_caching = True
    scheduler.cache_size = CACHE_GB
    scheduler.max_num_seqs = 2 * WIDTH
    scheduler.max_num_batched_tokens = 512
    properties = {"INFERENCE_NUM_THREADS": THREADS, **properties}
    return openvino_genai.ContinuousBatchingPipeline(str(model), tokenizer, scheduler, "CPU", **properties)


def _ended(job: Job, handle: Any) -> bool:
    import openvino_genai

    if job.result.cancelled():
        handle.cancel()
        return True
    return bool(handle.get_status() != openvino_genai.GenerationStatus.RUNNING)
