"""A sentence-transformers model in torch."""

import hashlib
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from corpora.encoders.low_rank import LowRank
from signatures.common.errors import needing
from signatures.common.http import hub_answers

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def load_model(name: str, folder: Path | None, device: str | None) -> "SentenceTransformer":
    """Return the model.

    Args:
        name: Of a model on the hub; used if there is no folder.
        folder: Of a local model; nothing is asked of the hub then.
        device: Of torch's; None lets torch choose.

    Raises:
        OSError, ValueError: The model cannot be loaded.
    """
    offline = folder is None and not hub_answers()
    if offline and not _is_kept(name):  # said before torch is imported, which takes seconds
        raise OSError("the model hub is unreachable, and the model is not cached locally")
    served = (
        "that OpenVINO does not serve" if find_spec("openvino") else "without OpenVINO (pip install openvino-genai)"
    )
    with needing("torch", f"An embedder {served}"):
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

    logging.disable_progress_bar()  # a bar for loading one weights file would interrupt ours
    # Without `local_files_only` the hub client may look for updates of a model that is on disk.
    return SentenceTransformer(
        name if folder is None else str(folder),
        device=device,
        local_files_only=folder is not None or offline,
    )


def _is_kept(name: str) -> bool:
    """Return whether the hub's client has kept files of a model, by its name or as one of sentence-transformers."""
    from huggingface_hub import constants

    names = (name, f"sentence-transformers/{name}")
    return any(Path(constants.HF_HUB_CACHE, f"models--{each.replace('/', '--')}").is_dir() for each in names)


def adapt(model: "SentenceTransformer", adapter: LowRank) -> None:
    """Merge an adapter into the weights of a model.

    Raises:
        UserError: It does not fit the model.
    """
    import torch

    transformer: Any = model[0].auto_model
    before = {name: value.detach().cpu().float().numpy() for name, value in transformer.state_dict().items()}
    merged = adapter.merged(before)
    changed = {name: torch.from_numpy(value) for name, value in merged.items() if value is not before[name]}
    transformer.load_state_dict(changed, strict=False)


def hash_weights(model: Any) -> str:
    """Return the SHA-256 of the names and values of a torch model's weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().float().numpy().tobytes())
    return digest.hexdigest()


class TorchEncoder:
    """Encodes by sentence-transformers, one call at a time (its tokenizer is not thread-safe).

    Args:
        model: As `load_model` returns it.
        batch_size: Texts per forward pass.
        alone: Compute with one thread, as a process forked from one that used torch must: its threads are not copied.
    """

    def __init__(self, model: "SentenceTransformer", batch_size: int, *, alone: bool = False):
        self.model, self._batch_size = model, batch_size
        if alone:
            import torch

            torch.set_num_threads(1)
            os.environ["TOKENIZERS_PARALLELISM"] = "false"  # else tokenizers prints a warning about the fork

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Return vectors of shape (len(texts), d), of the texts as they are: the model's own prompt is not added."""
        vectors: Any = self.model.encode(
            list(texts), prompt="", batch_size=self._batch_size, show_progress_bar=False, convert_to_numpy=True
        )
        return np.asarray(vectors)
