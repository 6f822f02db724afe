import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corpora.encoders.query_vectors import QueryVectors


class Counted:
    """Encodes a text as its length and remembers what it encoded."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def __call__(self, texts: list[str]) -> np.ndarray:
        self.batches.append(list(texts))
        return np.array([[len(text), 7] for text in texts], dtype=np.float32).reshape(len(texts), 2)

    @property
    def texts(self) -> list[str]:
        return [text for batch in self.batches for text in batch]


@given(st.lists(st.lists(st.text("abc", max_size=3), max_size=6), max_size=6), st.integers(0, 60))
def test_vectors_are_those_of_the_encoder_whatever_is_kept(calls, kept_bytes):
    encode = Counted()
    vectors = QueryVectors(encode, kept_bytes=kept_bytes)
    for queries in calls:
        np.testing.assert_array_equal(vectors(queries), Counted()(queries))
        assert sum(8 + len(text) for text in vectors._kept) == vectors._bytes <= kept_bytes


def test_a_query_is_encoded_once_and_the_least_recent_is_dropped():
    encode = Counted()
    vectors = QueryVectors(encode, kept_bytes=3 * 9)
    vectors(["a", "b", "a", "c"])
    vectors(["a"])
    vectors(["d"])  # drops b, because a was asked again
    vectors(["a", "b", "c"])
    assert encode.batches == [["a", "b", "c"], ["d"], ["b"]]


def test_prefetched_queries_are_not_encoded_again():
    encode = Counted()
    vectors = QueryVectors(encode)
    queries = [("long " * (number % 7)) + str(number) for number in range(700)]
    vectors.prefetch([*queries, *queries[:5]])
    assert sorted(encode.texts) == sorted(queries)
    assert max(map(len, encode.batches)) == 32
    spread = [len(batch[-1]) - len(batch[0]) for batch in encode.batches]
    assert sum(spread) < 300  # sorted in windows; in their order each batch would spread over 30
    assert set(encode.batches[0]) <= set(queries[:256])
    assert set(encode.texts[512:]) == set(queries[512:])
    np.testing.assert_array_equal(vectors(queries)[:, 0], [len(query) for query in queries])
    assert len(encode.texts) == 700


def test_prefetching_stops_between_batches_and_before_it_drops_its_own():
    encode = Counted()
    vectors = QueryVectors(encode)
    vectors.prefetch([str(number) for number in range(200)], lambda: len(encode.batches) == 3)
    assert len(encode.batches) == 3
    assert len(vectors) == 96
    small = QueryVectors(encode, kept_bytes=70 * 11)
    queries = [str(number) for number in range(100, 300)]
    small.prefetch(queries)
    assert set(queries[:64]) <= set(small._kept)


def test_threads_query_while_another_prefetches():
    encode, lock = Counted(), threading.Lock()

    def alone(texts: list[str]) -> np.ndarray:
        with lock:
            return encode(texts)

    vectors = QueryVectors(alone, kept_bytes=2000)
    queries = ["x" * (number % 50) + str(number) for number in range(300)]
    with ThreadPoolExecutor(8) as pool:
        ahead = pool.submit(vectors.prefetch, queries)
        found = list(pool.map(lambda query: vectors([query]), queries))
        ahead.result()
    assert [vector[0, 0] for vector in found] == [len(query) for query in queries]
