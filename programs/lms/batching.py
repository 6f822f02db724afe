"""The worker of the embedded LM: one thread that decodes what many threads ask for, together.

Requests that arrive together are decoded together, and what prompts share at their beginning is computed once.
"""

import contextlib
import queue
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from programs.lms import smollm

THREADS = 2
WIDTH = 16  # requests decoded together
GATHER = 0.003  # seconds the worker waits for company before a step, when there is room for it
CACHE_GB = 2  # keys and values of prompts, shared prefixes included


@dataclass
class Job:
    """One sequence (or, for log-probabilities, one set of beams) to decode."""

    prompt: Any
    config: Any
    result: "Future[list[Any]]" = field(default_factory=Future)


class Worker:
    """A loaded model and the thread that runs it; its queue is its own, so that no other worker empties it.

    Args:
        tokenizer: The runtime's tokeniser.
        properties: The runtime's settings, apart from the number of threads.
    """

    def __init__(self, tokenizer: Any, properties: dict[str, Any]):
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._over = False
        self._thread = threading.Thread(target=self._work, args=(tokenizer, properties), daemon=True, name="lm")
        self._thread.start()

    def submit(self, jobs: list[Job]) -> bool:
        """Take jobs; False, and none taken, when this worker has failed or is to stop."""
        with self._lock:
            if not self._over:
                for job in jobs:
                    self._jobs.put(job)
            return not self._over

    def stop(self) -> None:
        """Take no more jobs, and wait until those taken are answered and the model is freed."""
        with self._lock:
            if not self._over:
                self._jobs.put(None)
            self._over = True
        self._thread.join()

    def _work(self, tokenizer: Any, properties: dict[str, Any]) -> None:
        running: dict[int, tuple[Job, Any]] = {}
        try:
            pipeline = load(tokenizer, properties)
            number = 0
            while (fresh := self._gather(len(running))) is not None:
                for job in fresh:
                    number += 1
                    running[number] = (job, pipeline.add_request(number, job.prompt, job.config))
                pipeline.step()
                for key in [key for key, (job, handle) in running.items() if _ended(job, handle)]:
                    job, handle = running.pop(key)
                    if not job.result.cancelled():
                        job.result.set_result(handle.read_all())
        except BaseException as error:  # noqa: BLE001  (whoever waits must hear of it, whatever it is)
            self._fail(running, error)

    def _fail(self, running: dict[int, tuple[Job, Any]], error: BaseException) -> None:
        """Hand `error` to everyone who waits."""
        jobs = [job for job, _ in running.values()]
        with self._lock:
            self._over = True
            with contextlib.suppress(queue.Empty):
                while True:
                    if (job := self._jobs.get_nowait()) is not None:
                        jobs.append(job)
        for job in jobs:
            with contextlib.suppress(Exception):  # it may have been cancelled this moment
                job.result.set_exception(error)

    def _gather(self, running: int) -> list[Job] | None:
        """Return the jobs to add before the next step, None when the worker stops; waits only when idle."""
        fresh: list[Job] = []
        with contextlib.suppress(queue.Empty):
            while running + len(fresh) < WIDTH:
                # The runtime keeps the interpreter locked during a step: this pause is when others get to run.
                idle = running + len(fresh) == 0
                job = self._jobs.get() if idle else self._jobs.get(timeout=GATHER)
                if job is None:
                    if running or fresh:
                        self._jobs.put(None)
                        break
                    return None
                fresh.append(job)
        return fresh


def load(tokenizer: Any, properties: dict[str, Any]) -> Any:
    """Return the runtime with the model loaded; takes about 3 s."""
    import openvino_genai

    scheduler = openvino_genai.SchedulerConfig()
    scheduler.enable_prefix_caching = True
    scheduler.cache_size = CACHE_GB
    scheduler.max_num_seqs = 2 * WIDTH
    scheduler.max_num_batched_tokens = 512
    properties = {"INFERENCE_NUM_THREADS": THREADS, **properties}
    return openvino_genai.ContinuousBatchingPipeline(str(smollm.converted()), tokenizer, scheduler, "CPU", **properties)


def _ended(job: Job, handle: Any) -> bool:
    import openvino_genai

    if job.result.cancelled():
        handle.cancel()
        return True
    return bool(handle.get_status() != openvino_genai.GenerationStatus.RUNNING)
