import pytest

from optimizers.metrics.answer import accepted


def test_golds_are_texts_without_blanks_and_repeats() -> None:
    assert accepted(["Lima", " ", "", None, "Lima", 1921]) == ["Lima", "1921"]
    assert accepted([]) == []
    assert accepted([True]) == ["yes"]
    with pytest.raises(TypeError, match="must be a list"):
        accepted("Lima")


def test_a_lone_boolean_is_a_verdict_and_a_title_among_others_is_not() -> None:
    assert accepted(["False"]) == ["no", "False"]
    assert accepted(["True", "True (song)"]) == ["True", "True (song)"]
