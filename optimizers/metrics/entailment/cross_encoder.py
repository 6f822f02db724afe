"""Cross-encoders of sentence-transformers that were trained on natural language inference."""

import functools
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from optimizers.metrics.entailment.agreement import agreement_of
from optimizers.metrics.entailment.models import fitted, load, weights_id
from optimizers.metrics.entailment.oracle import Agreement, Pair, over_distinct, warn_cut
from signatures.common.errors import UserError

VERSION = 1  # of how a probability is read; part of the fingerprint
_SAYING = ("entailment", "entail", "entailed", "supported", "consistent")


def entailed_label(labels: Mapping[int, str]) -> int | None:
    """Return the number of the label that says "entailed"; None for a model with one output, which is its probability.

    Args:
        labels: `id2label` of the model's config. The order differs from model to model and is never guessed.

    Raises:
        UserError: No label, or more than one, says so.
    """
    if len(labels) == 1:
        return None
    found = [number for number, label in labels.items() if str(label).strip().casefold() in _SAYING]
    if len(found) != 1:
        raise UserError(
            f"None of the model's labels ({', '.join(map(str, labels.values()))}) says which one is entailment: take a "
            "model whose config names it, or write id2label into its config.json."
        )
    return int(found[0])


class CrossEncoderOracle:
    """Softmax of the label that says entailed, so neutral counts as not entailed; one output: its sigmoid.

    Args:
        model: A local folder or the name of a model of the hub; loaded at the first use.
        batch_size: Pairs per forward pass.
        device: "cpu", "cuda" and the like; None lets sentence-transformers choose.
    """

    threshold = 0.5

    def __init__(self, model: str, *, batch_size: int = 32, device: str | None = None):
        self.name = f"cross-encoder:{model}"
        self.batch_size = batch_size
        self._source, self._device = model, device
        self._lock = threading.RLock()
        self._model: Any = None
        self.cut = 0

    @functools.cached_property
    def fingerprint(self) -> str:
        """Return the model's name with what tells its weights."""
        return f"{self.name}:{weights_id(self._source, self._load())}:{VERSION}"

    @property
    def agreement(self) -> Agreement | None:
        """Return the measured agreement of these weights with people."""
        return agreement_of(self.fingerprint)

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        """Return P(entailed) of each (premise, hypothesis); 0 when one side is blank.

        Premises too long for the model are cut at the end and counted in `cut`.

        Raises:
            UserError: The model cannot be loaded or does not say which of its labels is entailment.
        """
        return over_distinct(pairs, self._score)

    def _score(self, pairs: list[Pair]) -> list[float]:
        import torch

        with self._lock:  # fast tokenizers change their padding in place and fail when two threads share one
            model = self._load()
            label = entailed_label(model.config.id2label)
            limit = model.max_seq_length
            if limit:
                specials = model.tokenizer.num_special_tokens_to_add(pair=True)
                pairs, cut = fitted(model.tokenizer, pairs, limit - specials)
                self.cut += cut
                warn_cut(cut, len(pairs), self.name, limit)
            logits = model.predict(
                list(pairs),
                batch_size=self.batch_size,
                activation_fn=torch.nn.Identity(),
                show_progress_bar=False,
                convert_to_tensor=True,
            ).float()
        chosen = torch.sigmoid(logits.reshape(-1)) if label is None else torch.softmax(logits, dim=1)[:, label]
        values: list[float] = chosen.tolist()
        return values

    def _load(self) -> Any:
        with self._lock:
            if self._model is None:
                self._model = load("cross-encoder", self._source, self._open)
            return self._model

    def _open(self, local: bool) -> Any:
        from sentence_transformers import CrossEncoder

        return CrossEncoder(self._source, device=self._device, local_files_only=local)
