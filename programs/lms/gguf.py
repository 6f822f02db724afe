"""Any GGUF file as an LM, by llama.cpp in this process; on an accelerator if its build supports one."""

import functools
import threading
from pathlib import Path
from typing import Any

from dspy.lm15 import ContextLengthError, Message, Request, Response, TextPart, TokenLogprob, TopLogprob, Usage

from programs.lms.requests import turns
from signatures.common.errors import UserError
from signatures.common.files import expanded, sha256_file, sha256_text
from signatures.common.versions import installed_versions

THREADS = 2
SLOTS = 4  # requests decoded together; the context is divided among them
CONTEXT_SIZE = 8192  # tokens per slot; the runtime does not state how many the model was trained with


@functools.cache
def rules() -> str:
    """Return eight hexadecimal digits that change with this file and with the runtime's version."""
    text = Path(__file__).read_text(encoding="utf-8")
    return sha256_text(f"{text}\n{installed_versions(['xllamacpp'])}")[:8]


def weights_hash(path: Path) -> str:
    """Return the SHA-256 of a file; it is read again only if its size or modification time has changed."""
    state = path.stat()
    return _hash(path.resolve(), state.st_size, state.st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _hash(path: Path, size: int, modified: int) -> str:
    return sha256_file(path)


class GgufEngine:
    """Answers `dspy.lm15` requests with the model in a GGUF file; loads at the first.

    Args:
        path: The file.

    Raises:
        UserError: The file is missing or not a GGUF file.
    """

    free = True
    supports_response_schema = True
    supported_params = ("temperature", "max_tokens", "top_p", "top_k", "stop", "seed", "logprobs", "top_logprobs",
                        "response_format")  # fmt: skip

    def __init__(self, path: str):
        self.path = expanded(path)
        if not self.path.is_file():
            raise UserError(f"No file {path!r}. Give the path of a GGUF file, as in gguf:models/qwen.gguf.")
        with open(self.path, "rb") as file:
            if file.read(4) != b"GGUF":
                raise UserError(f"{path!r} is not a GGUF file.")
        self._lock = threading.Lock()
        self._server: Any = None

    def __deepcopy__(self, memo: dict[int, Any]) -> "GgufEngine":
        return self

    def dump_state(self) -> dict[str, Any]:
        """Return the arguments for `load_state`."""
        return {"path": str(self.path)}

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> "GgufEngine":
        """Return an engine with the saved settings."""
        return cls(**state)

    @property
    def name(self) -> str:
        """The name in the cache keys of replies; changes with the weights, settings and runtime."""
        return f"gguf/{self.path.stem}@{weights_hash(self.path)[:16]}-{rules()}"

    def complete(self, request: Request) -> Response:
        """Answer one request; safe under threads.

        Raises:
            ContextLengthError: The prompt does not fit.
            RuntimeError: llama.cpp reports another failure.
        """
        reply = self._load().handle_chat_completions(_body(request))
        if "error" in reply:
            message = str(reply["error"].get("message", reply["error"]))
            kind = ContextLengthError if "context" in message else RuntimeError
            raise kind(message)
        choice, usage = reply["choices"][0], reply.get("usage") or {}
        content = (choice.get("logprobs") or {}).get("content")
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant([TextPart(choice["message"].get("content") or "")]),
            finish_reason="length" if choice.get("finish_reason") == "length" else "stop",
            usage=Usage(input_tokens=usage.get("prompt_tokens"), output_tokens=usage.get("completion_tokens")),
            logprobs=None if content is None else tuple(_token(item) for item in content),
        )

    def load(self) -> None:
        """Load the model, which the first request would do."""
        self._load()

    def close(self) -> None:
        """Free the model; the next request loads it again."""
        with self._lock:
            self._server = None

    def _load(self) -> Any:
        with self._lock:
            if self._server is None:
                self._server = _start(self.path)
            return self._server


def _start(path: Path) -> Any:
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.n_ctx = CONTEXT_SIZE * SLOTS
    parameters.n_parallel = SLOTS
    parameters.verbosity = -1
    parameters.ui = False
    for threads in (parameters.cpuparams, parameters.cpuparams_batch):
        threads.n_threads = THREADS
        threads.poll = 0  # busy waiting slows it down to one token per second on a busy machine
    return xllamacpp.Server(parameters)


def _body(request: Request) -> dict[str, Any]:
    config = request.config
    body: dict[str, Any] = {
        "messages": turns(request),
        "temperature": config.temperature if config.temperature is not None else 0.0,
        "max_tokens": config.max_tokens or 256,
        "cache_prompt": True,
    }
    optional = {"top_p": config.top_p, "top_k": config.top_k, "seed": config.seed, "stop": list(config.stop) or None}
    body.update({name: value for name, value in optional.items() if value is not None})
    if config.logprobs is not None:
        body.update(logprobs=True, top_logprobs=max(config.logprobs, 1))
    reply_format = config.response_format
    if reply_format is not None and reply_format.get("type") != "text":
        schema = {"name": "reply", "schema": reply_format.get("schema") or {"type": "object"}, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def _token(item: dict[str, Any]) -> TokenLogprob:
    top = tuple(TopLogprob(token=other["token"], logprob=min(other["logprob"], 0.0)) for other in item["top_logprobs"])
    return TokenLogprob(token=item["token"], logprob=min(item["logprob"], 0.0), top=top)
