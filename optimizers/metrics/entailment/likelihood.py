"""Likelihood features of a pair: how much the premise raises the embedded LM's probability of the hypothesis."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimizers.metrics.entailment.oracle import Pair, warn_cut
from programs.lms.weights import choice
from signatures.common.openvino_core import openvino_core

VERSION = 1  # of the features; part of fingerprints
NAMES = ("explained", "surprising")
MAX_PREMISE_TOKENS = 1536  # tokens of a premise; longer ones are cut at the end
LEAD = "\nIn short:"
RARE = -3.0  # log-probability without the premise below which a token counts as rare


class LikelihoodFeatures:
    """Features of pairs by one forward pass per pair and one per distinct hypothesis. Thread-safe, by a lock."""

    names = NAMES

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._request: Any = None
        self._tokenizer: Any = None

    @property
    def fingerprint(self) -> str:
        """Return version of the features and hash of the weights."""
        return f"likelihood{VERSION}:{choice.smollm_hash()[:16]}"

    def __call__(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return one row per pair, in the order of `NAMES`.

        - explained: share of the hypothesis' negative log-probability that the premise removes
        - surprising: mean log-probability, with the premise, of the tokens that are rare without it; 0 if none is
        """
        alone: dict[str, NDArray[np.float64]] = {}
        rows = np.zeros((len(pairs), len(NAMES)))
        cut = 0
        with self._lock:
            for number, (premise, hypothesis) in enumerate(pairs):
                premise_tokens = self._tokens(premise)
                cut += len(premise_tokens) > MAX_PREMISE_TOKENS
                target = self._tokens(" " + hypothesis.strip())
                if hypothesis not in alone:
                    alone[hypothesis] = self._logprobs(self._tokens(f"<|im_start|>{LEAD}"), target)
                prompt = np.concatenate(
                    [self._tokens("<|im_start|>"), premise_tokens[:MAX_PREMISE_TOKENS], self._tokens(LEAD)]
                )
                after, before = self._logprobs(prompt, target), alone[hypothesis]
                rare = before < RARE
                surprise = min(float(before.sum()), -1e-9)
                rows[number] = 1 - float(after.sum()) / surprise, float(after[rare].mean()) if rare.any() else 0.0
        warn_cut(cut, len(pairs), "likelihood", MAX_PREMISE_TOKENS)
        return rows

    def _tokens(self, text: str) -> NDArray[np.int64]:
        self._load()
        ids = self._tokenizer.encode(text, add_special_tokens=False).input_ids
        return np.asarray(ids.data, dtype=np.int64).reshape(-1)

    def _logprobs(self, context: NDArray[np.int64], text: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the log-probability of each token of `text` after `context`, cut to the model's context size."""
        text = text[: choice.CONTEXT_SIZE - len(context)]
        ids = np.concatenate([context, text])[None]
        self._request.reset_state()
        out = self._request.infer(
            {
                "input_ids": ids,
                "attention_mask": np.ones_like(ids),
                "position_ids": np.arange(ids.shape[1])[None],
                "beam_idx": np.zeros(1, dtype=np.int32),
            }
        )
        logits = next(iter(out.values()))[0, -len(text) - 1 : -1].astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
        chosen: NDArray[np.float64] = logits[np.arange(len(text)), text]
        return chosen

    def _load(self) -> None:
        if self._request is None:
            import openvino_genai

            folder = choice.converted()
            core = openvino_core()
            model = core.compile_model(core.read_model(folder / "openvino_model.xml"), "CPU")
            self._tokenizer = openvino_genai.Tokenizer(str(folder))
            self._request = model.create_infer_request()
