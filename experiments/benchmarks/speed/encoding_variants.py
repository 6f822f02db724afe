"""The ways of encoding and of retrieving that `encoding` compares."""

import functools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from corpora.encoders.openvino_encoder import PRECISIONS
from corpora.encoders.torch_encoder import TorchEncoder, load_model
from corpora.index.open import open_index
from corpora.retrievers.embedder import DEFAULT_EMBEDDER, Embedder, Vectors, default_folder
from corpora.retrievers.engine import IndexRetriever

THREADS = 64
BATCHES = (8, 32, 64)
DEPTH = 10  # passages per query
OLD = "sentence-transformers, one at a time under a lock, 64 threads"

Run = Callable[[list[str]], Any]


class Before(Embedder):
    """The embedder as it was: sentence-transformers, one call at a time."""

    def __init__(self) -> None:
        super().__init__(DEFAULT_EMBEDDER)
        self.encode = TorchEncoder(load_model(DEFAULT_EMBEDDER, default_folder(), "cpu"), 32)
        self._alone = threading.Lock()

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors."""
        with self._alone:
            vectors = np.array(self.encode(texts), dtype=np.float32)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors


def by_threads(ask: Callable[[str], Any], queries: Sequence[str]) -> list[Any]:
    """Return what `ask` returns for each query, asked by 64 threads."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(ask, queries))


def encoding(before: Before) -> dict[str, Run]:
    """Return the ways of encoding queries by name, the old one first."""
    variants: dict[str, Run] = {
        OLD: lambda queries: by_threads(lambda query: before([query]), queries),
        "sentence-transformers, batches of 32": lambda queries: before(queries),
    }
    for precision in PRECISIONS:
        embedder = Embedder(precision=precision)
        embedder.load()
        variants[f"{precision}, one at a time"] = functools.partial(_alone, embedder)
        variants[f"{precision}, 64 threads, gathered"] = functools.partial(_gathered, embedder)
        for size in BATCHES:
            batched = Embedder(precision=precision, batch_size=size)
            batched.load()
            variants[f"{precision}, batches of {size}"] = batched
    return variants


def _alone(embedder: Embedder, queries: list[str]) -> None:
    for query in queries:
        embedder([query])


def _gathered(embedder: Embedder, queries: list[str]) -> None:
    by_threads(lambda query: embedder([query]), queries)


def retrieving(index: Path, before: Before, embedders: dict[str, Embedder]) -> dict[str, Run]:
    """Return the ways of asking a hybrid index by name, the old one first.

    Each has an index of its own, because an index keeps the vectors of its queries; no query may be asked twice.

    Args:
        index: A hybrid index.
        before: The old embedder.
        embedders: Precision -> embedder.
    """

    def threads(retrieve: IndexRetriever, queries: list[str]) -> None:
        by_threads(lambda query: retrieve(query, DEPTH), queries)

    def ahead(retrieve: IndexRetriever, queries: list[str]) -> None:
        retrieve.prefetch(queries)
        threads(retrieve, queries)

    variants: dict[str, Run] = {OLD: functools.partial(threads, open_index(index, embedder=before))}
    for precision, embedder in embedders.items():
        for name, run in (("64 threads, gathered", threads), ("prefetched, then 64 threads", ahead)):
            variants[f"{precision}, {name}"] = functools.partial(run, open_index(index, embedder=embedder))
    words = open_index(index, retriever="bm25")
    variants["bm25 alone, 64 threads"] = lambda queries: by_threads(lambda query: words(query, DEPTH), queries)
    return variants


def bulk(before: Before, embedders: dict[str, Embedder]) -> dict[str, Run]:
    """Return the ways of encoding passages by name, the old one first."""
    return {"sentence-transformers": before, **{f"OpenVINO {name}": each for name, each in embedders.items()}}
