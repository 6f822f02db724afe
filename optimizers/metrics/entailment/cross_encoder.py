"""Cross-encoders of sentence-transformers, trained on natural language inference, as oracles."""

import functools
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from optimizers.metrics.entailment.agreement import agreement_of
from optimizers.metrics.entailment.models import cut_to_fit, load, weights_id
from optimizers.metrics.entailment.oracle import Agreement, Pair, over_distinct, warn_cut
from signatures.common.errors import UserError

VERSION = 1  # of the conversion to a probability; part of the fingerprint
_ENTAILED_LABELS = ("entailment", "entail", "entailed", "supported", "consistent")


def entailed_label(labels: Mapping[int, str]) -> int | None:
    """Return the number of the label that means "entailed"; None for a model with one output, its logit.

    Args:
        labels: `id2label` of the model's config. The order differs between models and is never guessed.

    Raises:
        UserError: No label, or more than one, means "entailed".
    """
    if len(labels) == 1:
        return None
    entailed = [number for number, label in labels.items() if str(label).strip().casefold() in _ENTAILED_LABELS]
    if len(entailed) != 1:
        raise UserError(
            f"The model's labels ({', '.join(map(str, labels.values()))}) do not identify entailment: choose a model "
            "whose config names it, or write id2label into its config.json."
        )
    return int(entailed[0])


class CrossEncoderOracle:
    """Softmax of the entailment label (neutral counts as not entailed); sigmoid for a model with one output.

    Args:
        model: A local folder or the name of a model on the hub; loaded at the first use.
        batch_size: Pairs per forward pass.
        device: Such as "cpu" or "cuda"; None lets sentence-transformers choose.
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
        """Return the model's name with the id of its weights."""
        return f"{self.name}:{weights_id(self._source, self._load())}:{VERSION}"

    @property
    def agreement(self) -> Agreement | None:
        """Return the measured agreement of these weights with human judgements."""
        return agreement_of(self.fingerprint)

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        """Return P(entailed) of each (premise, hypothesis); 0 if one side is blank.

        Premises too long for the model are cut at the end and counted in `cut`.

        Raises:
            UserError: The model cannot be loaded, or its labels do not identify entailment.
        """
        return over_distinct(pairs, self._score)

    def _score(self, pairs: list[Pair]) -> list[float]:
        import torch

        with self._lock:  # fast tokenizers change their padding in place and are not thread-safe
            model = self._load()
            label = entailed_label(model.config.id2label)
            limit = model.max_seq_length
            if limit:
                specials = model.tokenizer.num_special_tokens_to_add(pair=True)
                pairs, cut = cut_to_fit(model.tokenizer, pairs, limit - specials)
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
