from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from corpora.index.open import fingerprints, open_index
from corpora.retrievers.embedder import Embedder
from corpora.retrievers.engine import Prefetching
from corpora.retrievers.rerank import open_reranker

QUERIES = [f"amber {word} {number}" for number in range(25) for word in ("brook", "cedar", "north", "oasis")]


class Remembered:
    """The embedder of the tests, which remembers what it encoded."""

    def __init__(self, encode):
        self.texts: list[str] = []
        self._encode = encode

    def __call__(self, texts: list[str]) -> np.ndarray:
        self.texts += texts
        return self._encode(texts)


@pytest.fixture
def encode(fake_embedder):
    return Remembered(fake_embedder)


def named(passages):
    return [passage.id for passage in passages]


@pytest.mark.parametrize("wrap", [lambda r: r, lambda r: open_reranker(r, "own-light")])
@pytest.mark.parametrize("name", ["dense", "hybrid"])
def test_a_prefetched_query_is_not_encoded_again_and_finds_the_same(hybrid_folder, encode, fake_embedder, name, wrap):
    retrieve = wrap(open_index(hybrid_folder, retriever=name, embedder=Embedder("fake", encode=encode)))
    plain = wrap(open_index(hybrid_folder, retriever=name, embedder=fake_embedder))
    assert isinstance(retrieve, Prefetching)
    retrieve.prefetch([*QUERIES, "  ", "half \ud83d emoji"])
    assert sorted(encode.texts) == sorted([*QUERIES, "half ? emoji"])
    for query in [*QUERIES[:30], "half \ud83d emoji"]:
        alone, found = plain(query, 5), retrieve(query, 5)
        assert named(found) == named(alone)
        assert [p.score for p in found] == pytest.approx([p.score for p in alone], abs=2e-5)
    assert len(encode.texts) == len(QUERIES) + 1


def test_without_vectors_nothing_is_done(hybrid_folder, encode):
    retrieve = open_index(hybrid_folder, retriever="bm25")
    assert isinstance(retrieve, Prefetching)
    retrieve.prefetch(QUERIES)
    open_reranker(retrieve, "own").prefetch(QUERIES)


def test_prefetching_can_be_stopped(hybrid_folder, encode):
    retrieve = open_index(hybrid_folder, embedder=Embedder("fake", encode=encode))
    retrieve.prefetch(QUERIES, lambda: len(encode.texts) >= 32)
    assert len(encode.texts) == 32


@pytest.mark.parametrize("name", ["dense", "hybrid"])
def test_sixty_four_threads_get_what_one_gets(hybrid_folder, fake_embedder, name):
    queries = [f"{query} {number}" for number in range(4) for query in QUERIES]
    alone = open_index(hybrid_folder, retriever=name, embedder=fake_embedder)
    expected = [alone(query, 10) for query in queries]
    together = open_index(hybrid_folder, retriever=name, embedder=Embedder("fake", encode=fake_embedder))
    with ThreadPoolExecutor(64) as pool:
        found = list(pool.map(lambda query: together(query, 10), queries))
    assert [named(ranking) for ranking in found] == [named(ranking) for ranking in expected]
    for left, right in zip(found, expected, strict=True):
        assert [p.score for p in left] == pytest.approx([p.score for p in right], abs=2e-5)


def test_a_query_that_cannot_be_encoded_fails_alone(hybrid_folder, fake_embedder):
    def picky(texts: list[str]) -> np.ndarray:
        if any("bad" in text for text in texts):
            raise ValueError("a bad query")
        return fake_embedder(texts)

    retrieve = open_index(hybrid_folder, embedder=Embedder("fake", encode=picky))
    queries = [f"bad {query}" if number % 10 == 0 else query for number, query in enumerate(QUERIES)]

    def ask(query: str) -> bool:
        try:
            return bool(retrieve(query, 3))
        except ValueError:
            return False

    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(ask, queries)) == ["bad" not in query for query in queries]


def test_the_precision_of_queries_is_part_of_the_fingerprint(hybrid_folder, fake_embedder):
    exact = open_index(hybrid_folder, embedder=fake_embedder)
    fast = open_index(hybrid_folder, embedder=Embedder("fake", encode=fake_embedder, precision="bf16"))
    assert fast.fingerprint == f"{exact.fingerprint}-bf16"
    assert {exact.fingerprint, fast.fingerprint} <= fingerprints(hybrid_folder)
    assert open_index(hybrid_folder, retriever="bm25", precision="bf16").fingerprint in fingerprints(hybrid_folder)
