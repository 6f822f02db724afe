"""The embedded LM: a small instruct model in this process; one worker decodes for many threads.

Why this runtime: `experiments/benchmarks/README.md`, section "Language models".
"""

import collections
import functools
import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dspy.lm15 import ContextLengthError, Message, Request, Response, TextPart, TokenLogprob, TopLogprob, Usage

from programs.lms import smollm
from programs.lms.batching import Job, Worker
from programs.lms.calls.control import GRACE, current_control
from programs.lms.continuing import is_begun
from programs.lms.generation import DEFAULT_REPLY, EXACT, FAST, first_token, generation, rules
from programs.lms.requests import turns
from programs.lms.weights.choice import Weights, weights
from programs.parts.threads import result_of, wait_for


class EmbeddedEngine:
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

    def __deepcopy__(self, memo: dict[int, Any]) -> "EmbeddedEngine":
        return self

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
        return int(_encoded(self._load_tokenizer(), text).shape[1])

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
        prompt = _encoded(tokenizer, text)
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


def _encoded(tokenizer: Any, text: str) -> Any:
    """Return a tensor with the numbers of the tokens, of shape (1, tokens)."""
    ids = [tokenizer.encode(piece, add_special_tokens=False).input_ids for piece in smollm.without_code_tokens(text)]
    if len(ids) == 1:
        return ids[0]
    import numpy as np
    import openvino

    return openvino.Tensor(np.concatenate([each.data for each in ids], axis=1))
