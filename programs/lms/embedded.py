"""The embedded LM: a small instruct model in this process, decoded by one worker thread for many threads.

Concurrent requests are decoded together, and the shared prefix of their prompts is computed once. Why this runtime:
`experiments/benchmarks/README.md`, section "Language models".
"""

import collections
import contextlib
import functools
import hashlib
import json
import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dspy.lm15 import ContextLengthError, Message, Request, Response, TextPart, TokenLogprob, TopLogprob, Usage

from programs.lms.calls.control import GRACE, current_control
from programs.lms.continuing import is_begun
from programs.lms.requests import turns
from programs.lms.weights import choice
from programs.lms.weights.choice import Weights, weights
from programs.parts.threads import daemon, result_of, wait_for
from signatures.common.checkout import source_text
from signatures.common.files import sha256_text
from signatures.common.openvino_core import note_model
from signatures.common.per_process import Uncopied
from signatures.common.versions import installed_versions

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
        self._thread = daemon(self._work, model, tokenizer, properties, name="lm")

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

    note_model()
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


SHORT_REPLY = 256  # tokens; up to this limit, the length of texts in a JSON reply is capped
LONGEST_TEXT = 120  # characters
FREE = frozenset(("reasoning", "response"))  # texts that are long by nature; capped in very short replies alone
VERY_SHORT_REPLY = 128  # tokens
CHARACTERS = 2  # per generated token, at least
DEFAULT_REPLY = 256  # tokens, if a request sets no limit

FAST: dict[str, Any] = {}
# Without these, matrix products are rounded differently at different batch sizes.
EXACT: dict[str, Any] = {
    "INFERENCE_PRECISION_HINT": "f32",
    "KV_CACHE_PRECISION": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
}


@functools.cache
def rules() -> str:
    """Return eight hexadecimal digits that change with this file and with the runtime's version.

    They are part of the name in cache keys, so that a changed cap or runtime does not return old replies.
    """
    text = source_text(__file__)
    return sha256_text(f"{text}\n{choice.CONTEXT_SIZE}\n{installed_versions(['openvino-genai'])}")[:8]


def generation(request: Request, limit: int, seed: int) -> Any:
    """Return the runtime's settings for a reply of at most `limit` tokens; `seed` matters above temperature 0."""
    import openvino_genai

    settings = request.config
    config = openvino_genai.GenerationConfig(max_new_tokens=limit)
    config.apply_chat_template = False
    config.do_sample = bool(settings.temperature)
    if settings.temperature:
        config.temperature = settings.temperature
        config.top_p = settings.top_p if settings.top_p is not None else 1.0
        config.rng_seed = seed
        if settings.top_k is not None:
            config.top_k = settings.top_k
    if settings.stop:
        config.stop_strings = set(settings.stop)
    if settings.logprobs is not None:
        config.logprobs = 1
    if settings.response_format is not None and settings.response_format.get("type") != "text":
        schema = closing(settings.response_format.get("schema") or {"type": "object"}, limit)
        config.structured_output_config = openvino_genai.StructuredOutputConfig(json_schema=json.dumps(schema))
    return config


def closing(schema: dict[str, Any], limit: int) -> dict[str, Any]:
    """Return a schema with strings capped in length, so that the object closes within a short `limit` of tokens.

    A small model may repeat itself in the first string until the limit cuts the reply, and all later fields are lost.
    Nothing is capped under a long limit, nor what is long by nature unless the limit is very short: the grammar of a
    cap of 480 characters takes a minute.
    """
    fields = schema.get("properties") or {}
    texts = [name for name, field in fields.items() if field.get("type") == "string" and "enum" not in field]
    if limit > VERY_SHORT_REPLY:
        texts = [name for name in texts if name not in FREE]
    if not texts or limit > SHORT_REPLY:
        return schema
    cap = min(LONGEST_TEXT, CHARACTERS * (limit - 8 * len(fields)) // len(texts))
    capped = {name: {"maxLength": max(cap, 1), **fields[name]} for name in texts}
    return {**schema, "properties": {**fields, **capped}}


def first_token(top: int) -> Any:
    """Return the settings for the `top` most likely first tokens, as beams of length one."""
    import openvino_genai

    beams = min(max(top, 2), 20)
    config = openvino_genai.GenerationConfig(
        max_new_tokens=1, num_beams=beams, num_return_sequences=beams, logprobs=1, ignore_eos=True
    )
    config.apply_chat_template = False
    return config


class EmbeddedEngine(Uncopied):
    """Answers `dspy.lm15` requests with a small Llama model, which the first request loads (3 s; 15 s on first use).

    Rounding depends on the batch and on the prefix cache: at temperature 0, two replies to one prompt may differ, and
    P(yes) varies by 0.01 to 0.02 (more on processors that compute in bfloat16). Repeated runs get the reply from the
    cache; with `exact` there is no such variation.

    Args:
        exact: Compute in float32: replies depend on the prompt alone, P(yes) up to its sixth decimal; takes about twice
            the time.
        source: Empty for the default weights, `base`, `base-8bit`, or a folder (`programs.lms.weights.choice`).
        converted: Folder to write the model into, in the format of the runtime; by default it is kept in the cache
            folder, for all engines with these weights.

    Raises:
        UserError: The folder has no weights that can be served.
    """

    free = True
    supports_response_schema = True
    supported_params = ("temperature", "max_tokens", "top_p", "top_k", "stop", "seed", "logprobs", "top_logprobs",
                        "response_format")  # fmt: skip

    def __init__(self, *, exact: bool = False, source: str = "", converted: Path | None = None):
        self.exact = exact
        self.source = source
        self._converted = converted
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        self._model = Path()
        self._tokenizer: Any = None
        self._repeats: collections.Counter[str] = collections.Counter()

    def dump_state(self) -> dict[str, Any]:
        """Return the arguments for `load_state`."""
        return {"exact": self.exact, "source": self.source}

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> "EmbeddedEngine":
        """Return an engine with the saved settings."""
        return cls(**state)

    @functools.cached_property
    def weights(self) -> Weights:
        """The weights, chosen at first use."""
        return weights(self.source)

    @property
    def name(self) -> str:
        """The name in the cache keys of replies; changes with the weights, settings and runtime."""
        return f"embedded/{self.weights.name}{'-exact' if self.exact else ''}@{self.weights.hash[:16]}-{rules()}"

    def load(self) -> None:
        """Load the model, which the first request would do; return when it is loaded."""
        tokenizer = self._load_tokenizer()
        with self._lock:
            if self._worker is None:
                self._worker = self._new_worker(tokenizer)
            worker = self._worker
        wait_for(worker.started)

    def count_tokens(self, text: str) -> int:
        """Return the tokens in `text`."""
        return int(encoded(self._load_tokenizer(), text).shape[1])

    def complete(self, request: Request) -> Response:
        """Answer one request; safe under threads.

        Log-probabilities have alternatives for the first token only, at temperature 0.

        Raises:
            ContextLengthError: The prompt leaves no tokens for a reply.
            UserError: The weights are not installed.
        """
        tokenizer = self._load_tokenizer()
        said = turns(request)
        begun = said.pop()["content"] if is_begun(request) else ""
        text = tokenizer.apply_chat_template(said, add_generation_prompt=True) + begun
        prompt = encoded(tokenizer, text)
        length = int(prompt.shape[1])
        name, size = self.weights.name, self.weights.context_size
        room = size - length
        if room < 1:
            message = f"The prompt has {length} tokens; {name} has a context of {size} with the reply."
            raise ContextLengthError(message)
        limit = min(request.config.max_tokens or DEFAULT_REPLY, room)
        config = generation(request, limit, self._seed(request, text))
        top = request.config.logprobs or 0
        jobs = [Job(prompt, first_token(top))] if top > 0 else []
        if not jobs or limit > 1 or config.do_sample:
            jobs.append(Job(prompt, config))
        results = self._decode(jobs)  # the most likely first token is the greedy reply of one token
        return self._response(request, length, limit, results[-1][0], results[0] if top > 0 else [])

    def close(self) -> None:
        """Free the model after the requests in flight; the next request loads it again."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()

    def _seed(self, request: Request, text: str) -> int:
        """Return the requested seed, else one that depends on the prompt and the number of its earlier requests."""
        if request.config.seed is not None:
            return request.config.seed
        key = hashlib.sha256(text.encode()).hexdigest()
        with self._lock:
            self._repeats[key] += 1
            repeat = self._repeats[key]
        return int(key[:7], 16) + repeat

    def _load_tokenizer(self) -> Any:
        with self._lock:
            if self._tokenizer is None:
                import openvino_genai

                note_model()
                into = self._converted
                self._model = self.weights.converted() if into is None else self.weights.convert_into(into)
                self._tokenizer = openvino_genai.Tokenizer(str(self._model))
            return self._tokenizer

    def _new_worker(self, tokenizer: Any, jobs: Sequence[Job] = ()) -> Worker:
        return Worker(self._model, tokenizer, EXACT if self.exact else FAST, jobs)

    def _decode(self, jobs: list[Job]) -> list[list[Any]]:
        with self._lock:
            if self._worker is None or not self._worker.submit(jobs):
                self._worker = self._new_worker(self._tokenizer, jobs)
        try:
            abandoned = functools.partial(current_control().check, grace=GRACE)
            return [result_of(job.result, abandoned) for job in jobs]
        except BaseException:  # Ctrl-C in the waiting thread, or stopped work: the worker drops its jobs
            for job in jobs:
                job.result.cancel()
            raise

    def _response(self, request: Request, length: int, limit: int, output: Any, beams: list[Any]) -> Response:
        ids = list(output.generated_ids)
        cut = len(ids) >= limit and ids[-1] != self._tokenizer.get_eos_token_id()
        logprobs = None
        if request.config.logprobs is not None:
            top = tuple(
                TopLogprob(token=self._text([beam.generated_ids[0]]), logprob=min(beam.generated_log_probs[0], 0.0))
                for beam in beams
            )
            logprobs = tuple(
                TokenLogprob(token=self._text([token]), logprob=min(value, 0.0), top=top if position == 0 else ())
                for position, (token, value) in enumerate(zip(ids, output.generated_log_probs, strict=False))
            )
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant([TextPart(self._text(ids))]),
            finish_reason="length" if cut else "stop",
            usage=Usage(input_tokens=length, output_tokens=len(ids), total_tokens=length + len(ids)),
            logprobs=logprobs,
        )

    def _text(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=True))


def encoded(tokenizer: Any, text: str) -> Any:
    """Return a tensor with the numbers of the tokens, of shape (1, tokens)."""
    ids = [tokenizer.encode(piece, add_special_tokens=False).input_ids for piece in choice.without_code_tokens(text)]
    if len(ids) == 1:
        return ids[0]
    import numpy as np
    import openvino

    return openvino.Tensor(np.concatenate([each.data for each in ids], axis=1))
