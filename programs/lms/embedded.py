"""The embedded LM: a small real model in this process, one worker that answers many threads together.

Requests that arrive together are decoded together, and what prompts share at their beginning is computed once.
Why this runtime: `experiments/benchmarks/README.md`, section "Language models".
"""

import collections
import contextlib
import hashlib
import json
import queue
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from dspy.lm15 import ContextLengthError, Message, Request, Response, TextPart, TokenLogprob, TopLogprob, Usage

from programs.lms import smollm
from programs.lms.requests import turns

THREADS = 2
WIDTH = 16  # requests decoded together
GATHER = 0.003  # seconds the worker waits for company before a step, when there is room for it
CACHE_GB = 2  # keys and values of prompts, shared prefixes included
SHORT_REPLY = 128  # tokens; up to this limit, texts in a JSON reply are capped
LONGEST_TEXT = 120  # characters
CHARACTERS = 2  # per token, at least, in what it writes
DEFAULT_REPLY = 256  # tokens, where a request sets no limit

_FAST: dict[str, Any] = {}
# Without these, matrix products are rounded differently at different batch sizes.
_EXACT: dict[str, Any] = {
    "INFERENCE_PRECISION_HINT": "f32",
    "KV_CACHE_PRECISION": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0",
}


@dataclass
class _Job:
    """One sequence (or, for log-probabilities, one set of beams) to decode."""

    prompt: Any
    config: Any
    result: "Future[list[Any]]" = field(default_factory=Future)


class EmbeddedEngine:
    """Answers `dspy.lm15` requests with SmolLM2-135M-Instruct; loads on the first one (about 3 s, once 10 s).

    Sums are rounded differently with the batch, and when a prompt's beginning is already in the prefix cache: a reply
    at temperature 0 may then depart at some word from what the same prompt got before, and P(yes) moves by about a
    hundredth. The reply cache hides it from repeated runs; `exact` ends it.

    Args:
        exact: Compute in float32 throughout: replies depend on the prompt alone, P(yes) up to its sixth decimal; takes
            about twice the time.
    """

    free = True
    supports_response_schema = True
    supported_params = ("temperature", "max_tokens", "top_p", "top_k", "stop", "seed", "logprobs", "top_logprobs",
                        "response_format")  # fmt: skip

    def __init__(self, *, exact: bool = False):
        self.exact = exact
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._worker: threading.Thread | None = None
        self._tokenizer: Any = None
        self._asked: collections.Counter[str] = collections.Counter()

    def __deepcopy__(self, memo: dict[int, Any]) -> "EmbeddedEngine":
        return self

    def dump_state(self) -> dict[str, Any]:
        """Return what `load_state` needs."""
        return {"exact": self.exact}

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> "EmbeddedEngine":
        """Return an engine as it was when saved."""
        return cls(**state)

    def count_tokens(self, text: str) -> int:
        """Return the tokens in `text`."""
        return int(self._load_tokenizer().encode(text, add_special_tokens=False).input_ids.shape[1])

    def complete(self, request: Request) -> Response:
        """Answer one request; called from many threads at once.

        Log-probabilities are given with alternatives for the first token only, at temperature 0.

        Raises:
            ContextLengthError: The prompt leaves no room for a reply.
            UserError: The weights are not installed.
        """
        tokenizer = self._load_tokenizer()
        text = tokenizer.apply_chat_template(turns(request), add_generation_prompt=True)
        prompt = tokenizer.encode(text, add_special_tokens=False).input_ids
        length = int(prompt.shape[1])
        room = smollm.CONTEXT_SIZE - length
        if room < 1:
            message = f"The prompt has {length} tokens; {smollm.NAME} holds {smollm.CONTEXT_SIZE} with the reply."
            raise ContextLengthError(message)
        limit = min(request.config.max_tokens or DEFAULT_REPLY, room)
        config = _generation(request, limit, self._seed(request, text))
        top = request.config.logprobs or 0
        jobs = [_Job(prompt, _first_token(top))] if top > 0 else []
        if not jobs or limit > 1 or config.do_sample:
            jobs.append(_Job(prompt, config))
        results = self._decode(jobs)  # the likeliest first token is the whole greedy reply of one token
        return self._response(request, length, limit, results[-1][0], results[0] if top > 0 else [])

    def close(self) -> None:
        """Free the model once what is in flight is answered; the next request loads it again."""
        with self._lock:
            worker, self._worker = self._worker, None
            if worker is not None:
                self._jobs.put(None)
        if worker is not None:
            worker.join()

    def _seed(self, request: Request, text: str) -> int:
        """Return the seed asked for, else one that depends on the prompt and how often it was asked before."""
        if request.config.seed is not None:
            return request.config.seed
        key = hashlib.sha256(text.encode()).hexdigest()
        with self._lock:
            self._asked[key] += 1
            turn = self._asked[key]
        return int(key[:7], 16) + turn

    def _load_tokenizer(self) -> Any:
        with self._lock:
            if self._tokenizer is None:
                import openvino_genai

                self._tokenizer = openvino_genai.Tokenizer(str(smollm.converted()))
            return self._tokenizer

    def _decode(self, jobs: list[_Job]) -> list[list[Any]]:
        with self._lock:
            for job in jobs:
                self._jobs.put(job)
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, args=(self._tokenizer,), daemon=True, name="lm")
                self._worker.start()
        try:
            return [job.result.result() for job in jobs]
        except BaseException:  # Ctrl-C in the waiting thread: let the worker drop what nobody waits for
            for job in jobs:
                job.result.cancel()
            raise

    def _work(self, tokenizer: Any) -> None:
        running: dict[int, tuple[_Job, Any]] = {}
        try:
            pipeline = _pipeline(tokenizer, _EXACT if self.exact else _FAST)
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

    def _fail(self, running: dict[int, tuple[_Job, Any]], error: BaseException) -> None:
        """Hand `error` to everyone who waits; the next request starts over with a new worker."""
        with self._lock:
            if self._worker is threading.current_thread():
                self._worker = None
            jobs = [job for job, _ in running.values()]
            with contextlib.suppress(queue.Empty):
                while True:
                    if (job := self._jobs.get_nowait()) is not None:
                        jobs.append(job)
        for job in jobs:
            with contextlib.suppress(Exception):  # it may have been cancelled this moment
                job.result.set_exception(error)

    def _gather(self, running: int) -> list[_Job] | None:
        """Return the jobs to add before the next step, None when the engine closes; waits only when idle."""
        fresh: list[_Job] = []
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


def _pipeline(tokenizer: Any, properties: dict[str, Any]) -> Any:
    import openvino_genai

    scheduler = openvino_genai.SchedulerConfig()
    scheduler.enable_prefix_caching = True
    scheduler.cache_size = CACHE_GB
    scheduler.max_num_seqs = 2 * WIDTH
    scheduler.max_num_batched_tokens = 512
    properties = {"INFERENCE_NUM_THREADS": THREADS, **properties}
    return openvino_genai.ContinuousBatchingPipeline(str(smollm.converted()), tokenizer, scheduler, "CPU", **properties)


def _ended(job: _Job, handle: Any) -> bool:
    import openvino_genai

    if job.result.cancelled():
        handle.cancel()
        return True
    return bool(handle.get_status() != openvino_genai.GenerationStatus.RUNNING)


def _generation(request: Request, limit: int, seed: int) -> Any:
    import openvino_genai

    asked = request.config
    config = openvino_genai.GenerationConfig(max_new_tokens=limit)
    config.apply_chat_template = False
    config.do_sample = bool(asked.temperature)
    if asked.temperature:
        config.temperature = asked.temperature
        config.top_p = asked.top_p if asked.top_p is not None else 1.0
        config.rng_seed = seed
        if asked.top_k is not None:
            config.top_k = asked.top_k
    if asked.stop:
        config.stop_strings = set(asked.stop)
    if asked.logprobs is not None:
        config.logprobs = 1
    if asked.response_format is not None and asked.response_format.get("type") != "text":
        schema = _closing(asked.response_format.get("schema") or {"type": "object"}, limit)
        config.structured_output_config = openvino_genai.StructuredOutputConfig(json_schema=json.dumps(schema))
    return config


def _closing(schema: dict[str, Any], limit: int) -> dict[str, Any]:
    """Return a schema whose strings are capped so that the object closes within a short `limit` of tokens.

    A small model may ramble in its first string until the limit cuts the reply, and every later field is lost. Long
    limits are left alone: they are for long answers, and the grammar of a long cap costs more than the rambling.
    """
    fields = schema.get("properties") or {}
    texts = [name for name, field in fields.items() if field.get("type") == "string" and "enum" not in field]
    if not texts or limit > SHORT_REPLY:
        return schema
    cap = min(LONGEST_TEXT, CHARACTERS * (limit - 8 * len(fields)) // len(texts))
    capped = {name: {"maxLength": max(cap, 1), **fields[name]} for name in texts}
    return {**schema, "properties": {**fields, **capped}}


def _first_token(top: int) -> Any:
    """Return the settings that yield the `top` likeliest first tokens: beams of length one are just that."""
    import openvino_genai

    beams = min(max(top, 2), 20)
    config = openvino_genai.GenerationConfig(
        max_new_tokens=1, num_beams=beams, num_return_sequences=beams, logprobs=1, ignore_eos=True
    )
    config.apply_chat_template = False
    return config
