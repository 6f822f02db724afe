"""Sequence-to-sequence entailment models like TRUE: input "premise: ... hypothesis: ...", output "1" or "0".

Honovich et al., "TRUE: Re-evaluating Factual Consistency Evaluation", NAACL 2022, https://arxiv.org/abs/2204.04991;
model `google/t5_xxl_true_nli_mixture` (T5 with 11 billion parameters, about 45 GB in float32).
"""

import functools
import threading
from collections.abc import Sequence
from typing import Any

from optimizers.metrics.entailment.agreement import agreement_of
from optimizers.metrics.entailment.models import cut_to_fit, load, weights_id
from optimizers.metrics.entailment.oracle import Agreement, Pair, over_distinct, warn_cut

YES, NO = "1", "0"
VERSION = 1  # of the input format; part of the fingerprint


class Seq2SeqOracle:
    """P("1") against P("0"), each the product over its tokens, since T5 tokenises "0" as two. Thread-safe.

    Greedy decoding gives "1" exactly if this probability is above 0.5, unless it would give a third text.

    Args:
        model: A local folder or the name of a model on the hub; loaded at the first use.
        max_tokens: Longest input; longer premises are cut at the end and counted in `cut`. T5 itself has no limit.
        batch_size: Pairs per forward pass.
        device: Such as "cpu" or "cuda"; None uses a GPU if available.
        dtype: "auto" as stored, or a torch name such as "bfloat16".
    """

    threshold = 0.5

    def __init__(
        self, model: str, *, max_tokens: int = 2048, batch_size: int = 8, device: str | None = None, dtype: str = "auto"
    ):
        self.name = f"seq2seq:{model}"
        self.max_tokens, self.batch_size = max_tokens, batch_size
        self._source, self._device, self._dtype = model, device, dtype
        self._lock = threading.RLock()
        self._loaded: tuple[Any, Any] | None = None
        self.cut = 0

    @functools.cached_property
    def fingerprint(self) -> str:
        """Return the model's name with the id of its weights, number format and longest input."""
        model, _ = self._load()
        return f"{self.name}:{weights_id(self._source, model)}:{model.dtype}:{self.max_tokens}:{VERSION}"

    @property
    def agreement(self) -> Agreement | None:
        """Return the measured agreement of these weights with human judgements."""
        return agreement_of(self.fingerprint)

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
        import torch

        model, tokenizer = self._load()
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
        import torch
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(self._source, local_files_only=local)
        model = AutoModelForSeq2SeqLM.from_pretrained(self._source, dtype=self._dtype, local_files_only=local)
        device = self._device or ("cuda" if torch.cuda.is_available() else "cpu")
        return model.to(device).eval(), tokenizer
