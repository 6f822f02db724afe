import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.metrics.entailment.calibrated import NAMES, lexical_features, words


def features(premise: str, hypothesis: str) -> dict[str, float]:
    return dict(zip(NAMES, lexical_features([(premise, hypothesis)])[0].tolist(), strict=True))


def test_a_copy_is_wholly_contained() -> None:
    said = "Ansa Merrow opened 12 harbours in Quillon."
    assert features(f"It rained. {said}", said) == dict.fromkeys(NAMES, 1.0)


def test_shares_are_of_different_content_words_numbers_and_names() -> None:
    found = features("Ansa opened 12 harbours.", "In 1950 Ansa was opening the harbour of Dremmel.")
    assert found["words"] == pytest.approx(3 / 5)  # ansa, open, harbour; not 1950, dremmel
    assert found["numbers"] == 0.0
    assert found["names"] == pytest.approx(1 / 3)  # of In, Ansa, Dremmel
    assert found["word_pairs"] == pytest.approx(1 / 4)


def test_numbers_with_separators_are_one_word_and_must_be_equal() -> None:
    assert words("1,000 ships, 3.5 tons.") == ["1,000", "ships", "3.5", "tons"]
    assert features("It cost 1,000.", "It cost 100.")["numbers"] == 0.0


def test_chinese_is_compared_by_character_and_right_to_left_by_word() -> None:
    assert features("安莎出生于奎隆。", "安莎出生")["words"] == 1.0
    assert features("كان أحمد معلما", "كان أحمد طبيبا")["words"] == pytest.approx(2 / 3)


@given(st.lists(st.tuples(st.text(), st.text()), max_size=4))
def test_any_text_has_shares(pairs: list[tuple[str, str]]) -> None:
    rows = lexical_features(pairs)
    assert rows.shape == (len(pairs), len(NAMES))
    assert ((rows >= 0) & (rows <= 1)).all()
