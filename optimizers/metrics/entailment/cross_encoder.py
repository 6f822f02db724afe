"""Entailment models of the hub as oracles: cross-encoders trained on natural language inference, and TRUE.

Cross-encoders are those of sentence-transformers. Sequence-to-sequence models like TRUE (Honovich et al., "TRUE:
Re-evaluating Factual Consistency Evaluation", NAACL 2022, https://arxiv.org/abs/2204.04991; model
`google/t5_xxl_true_nli_mixture`, T5 with 11 billion parameters, about 45 GB in float32) read "premise: ... hypothesis:
..." and write "1" or "0".
"""

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from corpora.encoders.torch_encoder import hash_weights
from corpora.retrievers.embedder import Embedder
from optimizers.metrics.entailment.oracle import Measured, Pair, over_distinct, warn_cut
from signatures.common.errors import UserError, needing
from signatures.common.http import hub_answers


def load(kind: str, model: str, open_model: Callable[[bool], Any]) -> Any:
    """Return `open_model(local)`, where `local` is whether only files on disk are used: a folder's, or no hub answers.

    Raises:
        UserError: The model cannot be loaded.
    """
    try:
        return open_model(Path(model).is_dir() or not hub_answers())
    except UserError:
        raise
    except (OSError, ValueError, KeyError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(
            f"The {kind} {model!r} cannot be loaded ({reason}): give a local model folder or the name of a model on "
            "the hub."
        ) from error


def weights_id(model: str, loaded: Any) -> str:
    """Return an id of a model's weights: a hash of its folder's files, or the hub's revision.

    Args:
        model: Folder or name.
        loaded: The transformers model; its weights are hashed if there is neither folder nor revision.
    """
    if Path(model).is_dir():
        return Embedder(model).weights_hash[:16]
    from huggingface_hub import try_to_load_from_cache

    if isinstance(cached := try_to_load_from_cache(model, "config.json"), str):
        return Path(cached).parent.name[:16]
    return hash_weights(loaded)[:16]


def cut_to_fit(tokenizer: Any, pairs: Sequence[Pair], limit: int) -> tuple[list[Pair], int]:
    """Return the pairs with premises cut at the end so that a pair has at most `limit` tokens, and how many were cut.

    Hypotheses are never cut; if one takes all tokens, its premise becomes empty.

    Args:
        tokenizer: A transformers tokenizer.
        pairs: (premise, hypothesis).
        limit: Tokens of both sides, without special tokens.
    """
    kept: list[Pair] = []
    cut = 0
    for premise, hypothesis in pairs:
        available = max(0, limit - len(_ids(tokenizer, hypothesis)))
        ids = _ids(tokenizer, premise)
        if len(ids) > available:
            cut += 1
            premise = tokenizer.decode(ids[:available], skip_special_tokens=True)
            while premise and len(_ids(tokenizer, premise)) > available:  # decoded text may have more tokens
                premise = premise.rpartition(" ")[0]
        kept.append((premise, hypothesis))
    return kept, cut


def _ids(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False, truncation=False, verbose=False)["input_ids"]
    return ids


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


class CrossEncoderOracle(Measured):
    """Softmax of the entailment label (neutral counts as not entailed); sigmoid for a model with one output.

    Args:
        model: A local folder or the name of a model on the hub; loaded at the first use.
        batch_size: Pairs per forward pass.
    """

    threshold = 0.5

    def __init__(self, model: str, *, batch_size: int = 32):
        self.name = f"cross-encoder:{model}"
        self._source, self.batch_size = model, batch_size
        self._lock = threading.RLock()
        self._model: Any = None
        self.cut = 0

    @functools.cached_property
    def fingerprint(self) -> str:
        """Return the model's name with the id of its weights."""
        return f"{self.name}:{weights_id(self._source, self._load())}:{VERSION}"

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        """Return P(entailed) of each (premise, hypothesis); 0 if one side is blank.

        Premises too long for the model are cut at the end and counted in `cut`.

        Raises:
            UserError: The model cannot be loaded, or its labels do not identify entailment.
        """
        return over_distinct(pairs, self._score)

    def _score(self, pairs: list[Pair]) -> list[float]:
        with self._lock:  # fast tokenizers change their padding in place and are not thread-safe
            model = self._load()
            import torch

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
        with needing("torch", "A cross-encoder"):
            from sentence_transformers import CrossEncoder

        return CrossEncoder(self._source, local_files_only=local)


YES, NO = "1", "0"


class Seq2SeqOracle(Measured):
    """P("1") against P("0"), each the product over its tokens, since T5 tokenises "0" as two. Thread-safe.

    Greedy decoding gives "1" exactly if this probability is above 0.5, unless it would give a third text.

    Args:
        model: A local folder or the name of a model on the hub; loaded at the first use.
        max_tokens: Longest input; longer premises are cut at the end and counted in `cut`. T5 itself has no limit.
        batch_size: Pairs per forward pass.
    """

    threshold = 0.5

    def __init__(self, model: str, *, max_tokens: int = 2048, batch_size: int = 8):
        self.name = f"seq2seq:{model}"
        self._source, self.max_tokens, self.batch_size = model, max_tokens, batch_size
        self._lock = threading.RLock()
        self._loaded: tuple[Any, Any] | None = None
        self.cut = 0

    @functools.cached_property
    def fingerprint(self) -> str:
        """Return the model's name with the id of its weights, number format and longest input."""
        model, _ = self._load()
        return f"{self.name}:{weights_id(self._source, model)}:{model.dtype}:{self.max_tokens}:{VERSION}"

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        """Return P(entailed) of each (premise, hypothesis); 0 if one side is blank."""
        return over_distinct(pairs, self._score)

    def _score(self, pairs: list[Pair]) -> list[float]:
        with self._lock:
            _, tokenizer = self._load()
            frame = len(tokenizer("premise:  hypothesis: ")["input_ids"]) + 4  # spaces may be tokens
            kept, cut = cut_to_fit(tokenizer, pairs, self.max_tokens - frame)
            self.cut += cut
            warn_cut(cut, len(pairs), self.name, self.max_tokens)
            order = sorted(range(len(kept)), key=lambda number: len(kept[number][0]) + len(kept[number][1]))
            scores = [0.0] * len(kept)
            for start in range(0, len(order), self.batch_size):
                batch = order[start : start + self.batch_size]
                for number, score in zip(batch, self._forward([kept[number] for number in batch]), strict=True):
                    scores[number] = score
        return scores

    def _forward(self, pairs: list[Pair]) -> list[float]:
        model, tokenizer = self._load()
        import torch

        texts = [f"premise: {premise} hypothesis: {hypothesis}" for premise, hypothesis in pairs]
        inputs = tokenizer(texts, return_tensors="pt", padding=True, truncation=False, verbose=False).to(model.device)
        with torch.inference_mode():
            mask = inputs["attention_mask"]
            encoded = model.get_encoder()(input_ids=inputs["input_ids"], attention_mask=mask)
            logprobs = [self._logprob(label, encoded, mask) for label in (YES, NO)]
            return torch.softmax(torch.stack(logprobs), dim=0)[0].tolist()

    def _logprob(self, label: str, encoded: Any, mask: Any) -> Any:
        """Return the log-probability of a label for each encoded input, shape (batch,)."""
        import torch

        model, tokenizer = self._load()
        ids = torch.tensor(tokenizer(label, add_special_tokens=False)["input_ids"], device=mask.device)
        begin = torch.full((1,), model.config.decoder_start_token_id, device=mask.device)
        before = torch.cat([begin, ids[:-1]]).expand(len(mask), -1)
        logits = model(encoder_outputs=encoded, attention_mask=mask, decoder_input_ids=before, use_cache=False).logits
        logprobs = torch.log_softmax(logits.float(), dim=-1)
        return logprobs.gather(2, ids.expand(len(mask), -1)[:, :, None])[:, :, 0].sum(dim=1)

    def _load(self) -> tuple[Any, Any]:
        with self._lock:
            if self._loaded is None:
                self._loaded = load("entailment model", self._source, self._open)
            return self._loaded

    def _open(self, local: bool) -> tuple[Any, Any]:
        with needing("torch", "An entailment model"):
            import torch
            from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(self._source, local_files_only=local)
        model = AutoModelForSeq2SeqLM.from_pretrained(self._source, dtype="auto", local_files_only=local)
        return model.to("cuda" if torch.cuda.is_available() else "cpu").eval(), tokenizer
