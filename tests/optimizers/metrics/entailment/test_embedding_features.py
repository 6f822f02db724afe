import numpy as np
import pytest

from optimizers.metrics.entailment import embedding_features
from optimizers.metrics.entailment.embedding_features import NAMES, EmbeddingFeatures, pieces

QUILLON = "Ansa Merrow was born in Quillon. She became harbour master there. It rained for a week."


@pytest.fixture(scope="module")
def measure() -> EmbeddingFeatures:
    return EmbeddingFeatures()


def test_premises_are_cut_into_sentences_and_long_ones_into_pieces() -> None:
    assert pieces("One is here. Two! Three?\nFour") == ["One is here.", "Two!", "Three?", "Four"]
    assert pieces("安莎出生。她很好。") == ["安莎出生。", "她很好。"]
    assert pieces(" \n ") == []
    assert [len(piece.split()) for piece in pieces("w " * 250)] == [120, 120, 10]


def test_what_is_said_is_closer_than_what_is_not(measure: EmbeddingFeatures) -> None:
    said, other = measure([(QUILLON, "Ansa Merrow comes from Quillon."), (QUILLON, "Cheese is made of milk.")])
    assert (said > other + 0.1).all()


def test_every_distinct_text_is_encoded_once_whatever_the_order() -> None:
    measure = EmbeddingFeatures()
    pairs = [(QUILLON, "It rained for a week."), ("It rained for a week.", "Fog."), (QUILLON, "Fog.")]
    rows = measure(pairs)
    assert measure.encoded == 4  # three sentences and "Fog."
    np.testing.assert_allclose(measure(pairs[::-1])[::-1], rows, atol=2e-3)
    assert measure.encoded == 4


def test_small_chunks_and_little_room_give_the_same(measure: EmbeddingFeatures, monkeypatch) -> None:
    pairs = [(QUILLON, "It rained."), ("Fog lay there. It was thick.", "Fog."), (QUILLON, "Ansa Merrow lived.")]
    expected = measure(pairs)
    monkeypatch.setattr(embedding_features, "CHUNK", 1)
    monkeypatch.setattr(embedding_features, "CACHED_TOKENS", 8)
    cramped = EmbeddingFeatures()
    np.testing.assert_allclose(cramped(pairs), expected, atol=2e-3)
    assert sum(len(one.tokens) for one in cramped._cache.values()) == cramped._tokens <= 8


def test_odd_texts_have_features(measure: EmbeddingFeatures) -> None:
    rows = measure([("...", "!?"), ("كان أحمد معلما", "أحمد"), ("\u202e", "x")])
    assert rows.shape == (3, len(NAMES))
    assert np.isfinite(rows).all()
    assert measure([]).shape == (0, len(NAMES))


def test_a_cut_text_gives_a_warning(measure: EmbeddingFeatures) -> None:
    with pytest.warns(UserWarning, match="1 of 2 texts did not fit into 256 tokens"):
        measure([("Short.", "7,3.5;" * 300)])
