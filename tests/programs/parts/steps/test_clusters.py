"""Clusters of texts: alike texts together, the central one first, the same every time."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from programs.closed_book.genread import clusters
from tests.programs.fakes import Similar

HARBOUR = ["The harbour of Quillon.", "Ships in the harbour of Quillon.", "Quillon harbour, its ships and quays."]
HILLS = ["Sheep on chalk hills.", "Chalk hills and sheep."]


POINTS = Similar(lambda one, other: -abs(float(one) - float(other)))


def test_texts_that_share_words_are_together():
    texts = [HARBOUR[0], HILLS[0], HARBOUR[1], HILLS[1], HARBOUR[2]]
    assert [sorted(group) for group in clusters(texts, None, 2)] == [[0, 2, 4], [1, 3]]


def test_the_most_central_text_is_first():
    assert clusters(["1", "2", "9", "10", "11"], POINTS, 2) == [[0, 1], [3, 2, 4]]


def test_chinese_texts_are_compared_by_their_characters():
    texts = ["港口的船只", "山上的羊群", "船只停在港口"]
    assert [sorted(group) for group in clusters(texts, None, 2)] == [[0, 2], [1]]


def test_nothing_and_one_text():
    assert clusters([], None, 3) == []
    assert clusters(["a"], None, 3) == [[0]]


def test_equal_texts_make_one_cluster():
    assert clusters(["chalk hills"] * 4, None, 3) == [[0, 1, 2, 3]]


def test_equal_texts_make_one_cluster_where_their_similarities_differ_in_the_last_digits():
    noise = np.random.default_rng(0)

    def embedded(left, right):
        same = np.array([[float(one == other) for other in right] for one in left])
        return same + noise.normal(scale=1e-8, size=same.shape)

    found = clusters(["chalk", "fog", "chalk", "fog", "chalk"], embedded, 4)
    assert [sorted(group) for group in found] == [[0, 2, 4], [1, 3]]


@given(st.lists(st.integers(-50, 50).map(str), max_size=30), st.integers(1, 8))
def test_every_text_is_in_one_cluster(texts, size):
    found = clusters(texts, POINTS, size)
    assert sorted(place for group in found for place in group) == list(range(len(texts)))
    assert len(found) <= size
    assert all(found)
    assert clusters(texts, POINTS, size) == found
