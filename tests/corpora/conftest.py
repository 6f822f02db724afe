"""A small corpus and an embedder that needs no model: words are hashed to fixed directions."""

import json
import zlib
from pathlib import Path

import numpy as np
import pytest

from corpora.index.build import build_index
from corpora.retrievers.embedder import Embedder

VOCABULARY = "amber brook cedar delta ember fjord grove harbor inlet jetty knoll lagoon meadow north oasis prairie"
WORDS = VOCABULARY.split()


def hashed_words(texts: list[str]) -> np.ndarray:
    rows = []
    for text in texts:
        vector = np.full(64, 1e-3)
        for word in text.lower().split():
            vector += np.random.default_rng(zlib.crc32(word.encode())).normal(size=64)
        rows.append(vector)
    return np.array(rows).reshape(len(texts), 64)


def write_corpus(path: Path, count: int = 60, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    lines = [
        {"id": f"p{n}", "title": " ".join(rng.choice(WORDS, 2)), "text": " ".join(rng.choice(WORDS, 12))}
        for n in range(count)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture(scope="session")
def fake_embedder() -> Embedder:
    return Embedder("fake", encode=hashed_words)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "passages.jsonl")


@pytest.fixture(scope="session")
def hybrid_folder(tmp_path_factory: pytest.TempPathFactory, corpus: Path, fake_embedder: Embedder) -> Path:
    folder = tmp_path_factory.mktemp("index") / "hybrid"
    build_index(corpus, folder, embedder=fake_embedder)
    return folder


@pytest.fixture
def make_corpus():
    return write_corpus
