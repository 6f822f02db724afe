"""Any cross-encoder of sentence-transformers as a scorer of the reranker."""

import functools
import hashlib
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpora.retrievers.rerank_features import Pool
from signatures.common.errors import UserError

_ON_HUB = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
_CURE = "give own, own-light, none, a model folder, or the name of a cross-encoder of sentence-transformers"


def named_model(name: str) -> str:
    """Return the absolute path of a model folder, or a name on the hub as it is; nothing is loaded or downloaded.

    Raises:
        UserError: It is neither: no such folder, and no organization and model separated by a slash.
    """
    folder = Path(name).expanduser()
    if name and folder.is_dir():
        return str(folder.absolute())
    if _ON_HUB.fullmatch(name):
        return name
    raise UserError(f"Reranker {name!r} cannot be loaded (there is no such folder): {_CURE} (organization/model).")


class CrossEncoderScorer:
    """Scores each candidate by the question and its title and text together. Thread-safe; texts are cut by the model.

    Args:
        model: A local folder or the name of a model on the hub, with one output; loaded at the first use.
        device: "cpu", "cuda" or another of torch's; None lets torch choose.
        batch_size: Pairs per forward pass.
    """

    def __init__(self, model: str, *, device: str | None = None, batch_size: int = 32):
        self._source, self._device, self._batch_size = model, device, batch_size
        self._model: Any = None
        self._lock = threading.RLock()

    @functools.cached_property
    def fingerprint(self) -> str:
        """Return a hash of the weights; loads the model."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self._load().state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().float().numpy().tobytes())
        return f"cross-encoder:{digest.hexdigest()[:16]}"

    def __call__(self, query: str, pool: Pool) -> Sequence[float]:
        """Return the model's output for each candidate.

        Raises:
            UserError: The model cannot be loaded, or has more than one output.
        """
        pairs = [(query, f"{passage.title}: {passage.text}".removeprefix(": ")) for passage in pool.candidates]
        if not pairs:
            return []
        with self._lock:  # fast tokenizers change their padding in place and are not thread-safe
            scores = self._load().predict(pairs, batch_size=self._batch_size, show_progress_bar=False)
        return [float(score) for score in scores]

    def load(self) -> None:
        """Load the model, which the first use would do.

        Raises:
            UserError: It cannot be loaded, or has more than one output.
        """
        self._load()

    def _load(self) -> Any:
        with self._lock:
            if self._model is None:
                self._model = self._open()
            return self._model

    def _open(self) -> Any:
        from sentence_transformers import CrossEncoder
        from transformers.utils import logging

        logging.disable_progress_bar()
        local = Path(self._source).is_dir()
        try:
            model = CrossEncoder(self._source, device=self._device, local_files_only=local)
        except (OSError, ValueError) as error:
            raise UserError(
                f"Reranker {self._source!r} cannot be loaded ({str(error).splitlines()[0]}): {_CURE}."
            ) from error
        if model.config.num_labels != 1:
            raise UserError(
                f"Reranker {self._source!r} has {model.config.num_labels} outputs: choose a cross-encoder with one, "
                "the relevance."
            )
        return model
