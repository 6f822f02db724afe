"""Any GGUF file as an LM, by llama.cpp in this process; on an accelerator if its build supports one.

llama.cpp ends the process over some headers (docs/gguf.md of ggml describes them), so `read_header` reads them first.
"""

import functools
import math
import mmap
import re
import struct
import threading
from pathlib import Path
from typing import Any, NamedTuple

from dspy.lm15 import ContextLengthError, Message, Request, Response, TextPart, TokenLogprob, TopLogprob, Usage

from programs.lms.requests import turns
from signatures.common.checkout import source_text
from signatures.common.errors import UserError, needing, one_line
from signatures.common.files import expanded, sha256_file, sha256_text
from signatures.common.per_process import Uncopied
from signatures.common.versions import installed_versions

THREADS = 2
SLOTS = 4  # requests decoded together; the context is divided among them
CONTEXT_SIZE = 8192  # tokens per slot; the runtime does not state how many the model was trained with
_NUMBERS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_TEXT, _ARRAY = 8, 9  # the other types of values
_LONGEST_ARRAY = 1 << 24  # values; the largest vocabularies have 300,000 tokens
_LONGEST_NAME = 63  # bytes, of a tensor
_MOST = {"block_count": 512, "context_length": 1 << 28, "embedding_length": 1 << 20}  # what a model must state
_INTEGERS = (24, 25, 26, 27, 28)  # and float64: types of tensors, though not of these
_COMPUTED = re.compile(r"(?:.*\.)?(?:token_embd|output|\w+_norm|attn_\w+|ffn_(?:gate|up|down))\.weight")


@functools.cache
def rules() -> str:
    """Return eight hexadecimal digits that change with this file and with the runtime's version."""
    text = source_text(__file__)
    return sha256_text(f"{text}\n{installed_versions(['xllamacpp'])}")[:8]


def weights_hash(path: Path) -> str:
    """Return the SHA-256 of a file; it is read again only if its size or modification time has changed."""
    state = path.stat()
    return _hash(path.resolve(), state.st_size, state.st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _hash(path: Path, size: int, modified: int) -> str:
    return sha256_file(path)


class GgufEngine(Uncopied):
    """Answers `dspy.lm15` requests with the model in a GGUF file; loads at the first.

    Raises:
        UserError: The file is missing or not a GGUF file.
    """

    free = True
    supports_response_schema = True
    supported_params = ("temperature", "max_tokens", "top_p", "top_k", "stop", "seed", "logprobs", "top_logprobs",
                        "response_format")  # fmt: skip

    def __init__(self, path: str):
        self.path = expanded(path).absolute()  # it is read later, perhaps from another folder
        if not self.path.is_file():
            raise UserError(f"No file {path!r}. Give the path of a GGUF file, as in gguf:models/qwen.gguf.")
        with open(self.path, "rb") as file:
            if file.read(4) != b"GGUF":
                raise UserError(f"{path!r} is not a GGUF file.")
        self._lock = threading.Lock()
        self._server: Any = None

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
            UserError: The file cannot be loaded.
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


class Header(NamedTuple):
    """What stands before the weights of a GGUF file.

    Args:
        values: By name.
        types: Of each value, and of an array's items.
        tensors: Shape, type and first byte in the file of each, by name.
    """

    values: dict[str, Any]
    types: dict[str, tuple[int, int | None]]
    tensors: dict[str, tuple[tuple[int, ...], int, int]]


class _Reader:
    """Reads values from the beginning of a file, the next at the byte `place`; a ValueError says what is wrong."""

    def __init__(self, data: mmap.mmap):
        self._data, self.place = data, 0

    def _take(self, size: int) -> int:
        start, rest = self.place, len(self._data) - self.place
        if size > rest:
            raise ValueError(f"{size:,} bytes are stated at byte {start:,}, where {rest:,} are left")
        self.place += size
        return start

    def numbers(self, form: str, count: int) -> tuple[Any, ...]:
        start = self._take(count * struct.calcsize(f"<{form}"))
        return struct.unpack_from(f"<{count}{form}", self._data, start)

    def number(self, form: str) -> Any:
        return self.numbers(form, 1)[0]

    def text(self) -> str:
        size = self.number("Q")
        start = self._take(size)
        return self._data[start : start + size].decode(errors="surrogateescape")

    def value(self) -> tuple[Any, int, int | None]:
        """Return a value, its type, and the type of an array's items."""
        kind, count = self.number("I"), None
        if kind == _ARRAY:
            kind, count = self.number("I"), self.number("Q")
            if count > _LONGEST_ARRAY:
                raise ValueError(f"an array of {count:,} values")
        if kind != _TEXT and kind not in _NUMBERS:
            raise ValueError(f"a value of the unknown type {kind}")
        if count is None:
            return self.text() if kind == _TEXT else self.number(_NUMBERS[kind]), kind, None
        items = [self.text() for _ in range(count)] if kind == _TEXT else list(self.numbers(_NUMBERS[kind], count))
        return items, _ARRAY, kind


def read_header(path: Path) -> Header:
    """Return the header of a file, checked.

    Raises:
        UserError: It is not that of a language model, or states what the file does not have.
    """
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _read(_Reader(data), len(data))
    except (ValueError, OSError) as error:
        raise _refused(path, error) from error


def _refused(path: Path, why: object) -> UserError:
    what = "is damaged, or not a GGUF file of a language model"
    return UserError(f"{str(path)!r} {what} ({one_line(why)}). Fetch or convert it again.")


def _read(header: _Reader, size: int) -> Header:
    magic, version = header.number("I"), header.number("I")
    if magic != int.from_bytes(b"GGUF", "little") or version not in (2, 3):
        raise ValueError(f"version {version}; 2 and 3 can be read")
    tensors, count = header.number("Q"), header.number("Q")
    values: dict[str, Any] = {}
    types: dict[str, tuple[int, int | None]] = {}
    for _ in range(count):
        name = header.text()
        if name in values:
            raise ValueError(f"{name[:60]!r} is stated twice")
        values[name], kind, of_items = header.value()
        types[name] = kind, of_items
    _check_values(values)
    alignment = values.get("general.alignment", 32)
    if alignment not in [1 << power for power in range(20)]:
        raise ValueError(f"general.alignment is {str(alignment)[:60]}, no power of two")
    return Header(values, types, _read_tensors(header, tensors, alignment, size))


def _check_values(values: dict[str, Any]) -> None:
    kind = values.get("general.architecture")
    for name, most in _MOST.items():
        value = values.get(f"{kind}.{name}")
        if not isinstance(value, int) or not 1 <= value <= most:
            raise ValueError(f"{str(kind)[:60]}.{name} is {value!r}; it must be from 1 to {most:,}")
    for name, value in values.items():
        if isinstance(value, float) and not (math.isfinite(value) and (value >= 0 or "epsilon" not in name)):
            raise ValueError(f"{name[:60]!r} is {value}")
    if values.get("tokenizer.ggml.model") in ("none", "no_vocab"):
        return
    tokens = values.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or not isinstance((tokens or [0])[0], str) or len(set(tokens)) < len(tokens):
        raise ValueError("it has no vocabulary, or a token twice")
    for name in ("scores", "token_type"):
        other = values.get(f"tokenizer.ggml.{name}", tokens)
        if not isinstance(other, list) or len(other) != len(tokens):
            raise ValueError(f"tokenizer.ggml.{name} does not fit the {len(tokens):,} tokens")


def _read_tensors(
    header: _Reader, count: int, alignment: int, size: int
) -> dict[str, tuple[tuple[int, ...], int, int]]:
    import gguf

    found: dict[str, tuple[tuple[int, ...], int, int]] = {}
    start = end = 0
    for _ in range(count):
        name, dimensions = header.text(), header.number("I")
        if name in found or len(name.encode()) > _LONGEST_NAME or not 1 <= dimensions <= 4:
            raise ValueError(f"the tensor {name[:60]!r} of {dimensions} dimensions, or another of its name")
        shape, kind, offset = header.numbers("Q", dimensions), header.number("I"), header.number("Q")
        if kind not in gguf.GGML_QUANT_SIZES or (kind in _INTEGERS and _COMPUTED.fullmatch(name)):
            raise ValueError(f"{name!r} has the type {kind}, which is unknown, or not one of weights")
        block, width = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(kind)]
        if min(shape) < 1 or math.prod(shape) >= 1 << 60 or shape[0] % block:
            raise ValueError(f"{name!r} has the shape {shape}")
        if offset != start:
            raise ValueError(f"{name!r} begins at byte {offset:,}, not at {start:,}")
        found[name] = (shape[::-1], kind, offset)
        end = offset + math.prod(shape) // block * width
        start = end + -end % alignment
    first = header.place + -header.place % alignment
    if not found or first + end > size:
        raise ValueError(f"its {count:,} tensors need {first + end:,} bytes, and it has {size:,}")
    return {name: (shape, kind, first + offset) for name, (shape, kind, offset) in found.items()}


def _start(path: Path) -> Any:
    with needing("gguf", "A GGUF file"):
        import xllamacpp

    read_header(path)
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.n_ctx = CONTEXT_SIZE * SLOTS
    parameters.n_parallel = SLOTS
    parameters.verbosity = -1
    parameters.ui = False
    parameters.endpoint_metrics = True
    for threads in (parameters.cpuparams, parameters.cpuparams_batch):
        threads.n_threads = THREADS
        threads.poll = 0  # busy waiting slows it down to one token per second on a busy machine
    try:
        server = xllamacpp.Server(parameters)
        server.handle_metrics()  # answered by its loop: to free a server whose loop has not begun would wait for ever
        return server
    except RuntimeError as error:  # its log, which is off, would say why
        raise _refused(path, f"llama.cpp cannot load it: {error}") from error


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
