"""Embedding features of a pair: similarity of the hypothesis to the premise's sentences, and coverage of its words.

Coverage is greedy matching of contextual word vectors, the recall of BERTScore (Zhang et al., ICLR 2020,
https://arxiv.org/abs/1904.09675), over all sentences of the premise, with the vectors of a sentence embedder.
"""

import functools
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corpora.retrievers.embedder import DEFAULT_EMBEDDER, Embedder, default_folder
from optimizers.metrics.entailment.oracle import Pair, warn_cut
from signatures.common.errors import needing
from signatures.common.words import FUNCTION_WORDS

VERSION = 1  # of the features; part of fingerprints
NAMES = ("sentences", "premise", "coverage", "weakest")
CACHED_TOKENS = 200_000  # of the texts encoded last; about 150 MB
CHUNK = 4000  # texts encoded at a time, to bound memory
BATCH = 32
MAX_WORDS = 120  # words; longer sentences are split, so that none exceeds the embedder's limit

_END = re.compile(r"(?<=[.!?؟])[\"”')\]]*\s+(?=\S)|(?<=[。！？])|\n+")


class TextVectors(NamedTuple):
    """The vectors of one text.

    Args:
        sentence: Unit vector of the text, shape (d,).
        tokens: Unit vectors of the tokens, half precision, shape (tokens, d).
        content: Whether each token belongs to a content word, shape (tokens,).
    """

    sentence: NDArray[np.float32]
    tokens: NDArray[np.float16]
    content: NDArray[np.bool_]


def pieces(premise: str) -> list[str]:
    """Return the sentences of a premise, at most 120 words each; none is empty.

    A simple and fast rule: it runs over every passage, and a wrong split changes a feature only slightly.
    """
    parts = []
    for sentence in _END.split(premise):
        words = sentence.split()
        parts += [" ".join(words[start : start + MAX_WORDS]) for start in range(0, len(words), MAX_WORDS)]
    return parts


def _unit(vectors: NDArray[Any]) -> NDArray[Any]:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


class EmbeddingFeatures:
    """Features of pairs by the embedded MiniLM. Thread-safe; each distinct text of a call is encoded once."""

    names = NAMES

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._model: Any = None
        self._cache: OrderedDict[str, TextVectors] = OrderedDict()
        self._tokens = 0
        self.encoded = 0

    @functools.cached_property
    def fingerprint(self) -> str:
        """Return version of the features and hash of the weights."""
        return f"closeness{VERSION}:{Embedder(DEFAULT_EMBEDDER).weights_hash[:16]}"

    def __call__(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return one row per pair, in the order of `NAMES`.

        - sentences: mean cosine of the hypothesis with its two closest sentences of the premise
        - premise: cosine with the mean of all sentences of the premise
        - coverage: mean over the hypothesis' content tokens of the best cosine with a token of the premise
        - weakest: the 10th percentile of the same
        """
        rows = np.zeros((len(pairs), len(NAMES)))
        order = sorted(range(len(pairs)), key=lambda number: pairs[number][0])  # equal premises are adjacent
        with self._lock:
            start = 0
            while start < len(order):
                end, needed = start, dict[str, None]()
                while end < len(order) and len(needed) < CHUNK:
                    premise, hypothesis = pairs[order[end]]
                    needed.update(dict.fromkeys([*pieces(premise), hypothesis]))
                    end += 1
                vectors = self._encode(list(needed))
                for number in order[start:end]:
                    rows[number] = self._row(pairs[number], vectors)
                start = end
        return rows

    def _row(self, pair: Pair, vectors: dict[str, TextVectors]) -> tuple[float, float, float, float]:
        hypothesis = vectors[pair[1]]
        parts = [vectors[piece] for piece in pieces(pair[0])]
        if not parts:
            return 0.0, 0.0, 0.0, 0.0
        sentences = np.stack([part.sentence for part in parts])
        nearest = np.sort(sentences @ hypothesis.sentence)[::-1][:2]
        covered = _covered(hypothesis.tokens, [part.tokens for part in parts])
        covered = covered[hypothesis.content] if hypothesis.content.any() else covered
        premise_cosine = float(_unit(sentences.mean(axis=0)) @ hypothesis.sentence)
        return float(nearest.mean()), premise_cosine, float(covered.mean()), float(np.quantile(covered, 0.1))

    def _encode(self, texts: list[str]) -> dict[str, TextVectors]:
        """Return the vectors of the texts, encoding those that are not cached."""
        encoded_texts = {text: self._cache[text] for text in texts if text in self._cache}
        fresh = sorted((text for text in texts if text not in encoded_texts), key=len)
        cut = 0
        for start in range(0, len(fresh), BATCH):
            batch = fresh[start : start + BATCH]
            encoded, longer = self._forward(batch)
            encoded_texts.update(zip(batch, encoded, strict=True))
            cut += longer
        self.encoded += len(fresh)
        if fresh:
            warn_cut(cut, len(fresh), "embedding features", self._load().max_seq_length)
        for text in texts:
            self._keep(text, encoded_texts[text])
        return encoded_texts

    def _keep(self, text: str, encoded: TextVectors) -> None:
        if text in self._cache:
            self._cache.move_to_end(text)
            return
        self._cache[text] = encoded
        self._tokens += len(encoded.tokens)
        while self._tokens > CACHED_TOKENS:
            self._tokens -= len(self._cache.popitem(last=False)[1].tokens)

    def _forward(self, texts: list[str]) -> tuple[list[TextVectors], int]:
        """Return the vectors of a batch and the number of texts that exceed the model's limit."""
        model = self._load()
        import torch

        features = model.preprocess(texts)
        inputs = {name: value for name, value in features.items() if name != "modality"}
        with torch.inference_mode():
            out = model(dict(features))
        sentences = _unit(out["sentence_embedding"].float().cpu().numpy()).astype(np.float32)
        tokens = torch.nn.functional.normalize(out["token_embeddings"].float(), dim=-1).half().cpu().numpy()
        ids, mask = inputs["input_ids"].cpu().numpy(), inputs["attention_mask"].cpu().numpy()
        content = self._content[ids] & (mask > 0)
        lengths = mask.sum(axis=1)
        encoded = [
            TextVectors(sentences[row], tokens[row, : lengths[row]].copy(), content[row, : lengths[row]])
            for row in range(len(texts))
        ]
        return encoded, int((lengths >= model.max_seq_length).sum())

    @functools.cached_property
    def _content(self) -> NDArray[np.bool_]:
        """Return for each token id whether it belongs to a content word."""
        tokenizer = self._load().tokenizer
        special = set(tokenizer.all_special_tokens)
        listed = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        return np.array(
            [
                token not in special
                and token.removeprefix("##") not in FUNCTION_WORDS
                and any(letter.isalnum() for letter in token)
                for token in listed
            ]
        )

    def _load(self) -> Any:
        if self._model is None:
            with needing("torch", "The calibrated entailment oracle"):
                from sentence_transformers import SentenceTransformer
                from transformers.utils import logging

            logging.disable_progress_bar()
            self._model = SentenceTransformer(str(default_folder()), local_files_only=True).eval()
        return self._model


def _covered(hypothesis: NDArray[np.float16], premise: list[NDArray[np.float16]]) -> NDArray[np.float32]:
    side = hypothesis.astype(np.float32)
    best: NDArray[np.float32] = (side @ np.concatenate(premise).astype(np.float32).T).max(axis=1)
    return best
