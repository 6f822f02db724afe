"""A head on the MiniLM encoder that reads premise and hypothesis together, trained with the encoder's upper layers."""

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpora.retrievers.embedder import default_folder
from optimizers.metrics.entailment.embedding_features import pieces
from optimizers.metrics.entailment.lexical_features import words
from optimizers.metrics.entailment.oracle import Pair

BATCH, RATE, WARM_UP, LONGEST = 16, 3e-4, 20, 128  # LONGEST in tokens
MOST_WORDS = 70  # words of the premise that are read: the sentences that share most words with the hypothesis
MOST_WEIGHT = 3.0


@dataclass(frozen=True)
class Labelled:
    """A pair to train on.

    Args:
        pair: (premise, hypothesis).
        entailed: The label.
        data: Its set; sets, and both labels within a set, are weighted equally.
    """

    pair: Pair
    entailed: bool
    data: str


def shortened(premise: str, hypothesis: str, most: int = MOST_WORDS) -> str:
    """Return the sentences of a premise that share most words with the hypothesis, in their order."""
    wanted, parts = set(words(hypothesis)), pieces(premise)
    kept: set[int] = set()
    total = 0
    for place in sorted(range(len(parts)), key=lambda place: -len(wanted & set(words(parts[place])))):
        size = len(parts[place].split())
        if not kept or total + size <= most:
            kept.add(place)
            total += size
    return " ".join(parts[place] for place in sorted(kept))


def weights_of(examples: Sequence[Labelled]) -> list[float]:
    """Return the weight of each example, on average 1: equal sums for all sets and for both labels of a set."""
    counts = Counter((each.data, each.entailed) for each in examples)
    even = len(examples) / len(counts)
    return [min(MOST_WEIGHT, even / counts[each.data, each.entailed]) for each in examples]


class EncoderHead:
    """P(entailed) by the encoder and a linear layer over its first and its mean vector.

    Args:
        folder: A BERT model with its tokenizer.
        frozen: Lower layers that are not trained, with the embeddings.
        seed: Of the linear layer and of the order of examples.
    """

    def __init__(self, folder: Path | None = None, *, frozen: int = 4, seed: int = 0):
        import torch
        from transformers import AutoModel, AutoTokenizer

        torch.manual_seed(seed)
        self._seed = seed
        source = str(folder or default_folder())
        self._tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=True)
        self._encoder = AutoModel.from_pretrained(source, local_files_only=True).eval()
        self._head = torch.nn.Linear(2 * self._encoder.config.hidden_size, 1)
        for part in (self._encoder.embeddings, *self._encoder.encoder.layer[:frozen]):
            part.requires_grad_(False)

    def train(self, examples: Sequence[Labelled], steps: int) -> dict[str, Any]:
        """Train for a number of batches; return the loss of the first and last tenth, and the seconds."""
        import torch

        order = random.Random(self._seed)
        weights = weights_of(examples)
        trained = [*(p for p in self._encoder.parameters() if p.requires_grad), *self._head.parameters()]
        optimizer = torch.optim.AdamW(trained, lr=RATE, weight_decay=0.01)
        start, losses, queue = time.perf_counter(), [], list[int]()
        for step in range(steps):
            if len(queue) < BATCH:
                queue = order.sample(range(len(examples)), len(examples))
            chosen, queue = queue[:BATCH], queue[BATCH:]
            optimizer.param_groups[0]["lr"] = RATE * min(1.0, (step + 1) / WARM_UP) * (1 - step / steps)
            logits = self._logits([examples[place].pair for place in chosen])
            loss = torch.nn.functional.binary_cross_entropy_with_logits(
                logits,
                torch.tensor([float(examples[place].entailed) for place in chosen]),
                torch.tensor([weights[place] for place in chosen]),
            )
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            losses.append(loss.item())
        tenth = max(1, steps // 10)
        return {
            "steps": steps,
            "batch": BATCH,
            "examples": len(examples),
            "loss": [round(float(np.mean(part)), 4) for part in (losses[:tenth], losses[-tenth:])],
            "seconds": round(time.perf_counter() - start),
        }

    def __call__(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return P(entailed) of each pair."""
        import torch

        scores = np.zeros(len(pairs))
        order = sorted(range(len(pairs)), key=lambda place: len(pairs[place][0]))
        with torch.inference_mode():
            for start in range(0, len(order), 2 * BATCH):
                places = order[start : start + 2 * BATCH]
                scores[places] = torch.sigmoid(self._logits([pairs[place] for place in places])).numpy()
        return scores

    def _logits(self, pairs: Sequence[Pair]) -> Any:
        import torch

        inputs = self._tokenizer(
            [shortened(premise, hypothesis) for premise, hypothesis in pairs],
            [hypothesis for _, hypothesis in pairs],
            truncation=True,
            max_length=LONGEST,
            padding=True,
            return_tensors="pt",
        )
        with torch.autocast("cpu", dtype=torch.bfloat16):  # on CPUs with AMX several times as fast
            states = self._encoder(**inputs).last_hidden_state.float()
        mask = inputs["attention_mask"].unsqueeze(-1)
        mean = (states * mask).sum(1) / mask.sum(1)
        return self._head(3 * torch.cat([states[:, 0], mean], dim=-1))[:, 0]
