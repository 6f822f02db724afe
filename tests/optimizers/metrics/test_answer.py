"""Exact match and token overlap, on worked examples and against an independent computation."""

import re
import string
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.metrics.answer import (
    HOTPOT,
    MUSIQUE,
    SQUAD,
    TWO_WIKI,
    Definition,
    cover_labels,
    cover_raw,
    cover_substring,
    cover_tokens,
    exact_match,
    token_overlap,
    verdict_accuracy,
)
from signatures.text import normalize_answer

WORDS = st.lists(
    st.sampled_from(["yes", "no", "noanswer", "a", "The", "Paris", "paris,", "1921", "21", "María", "an", "C++", "!"]),
    max_size=6,
).map(" ".join)
EVERY = pytest.mark.parametrize("definition", [HOTPOT, TWO_WIKI, SQUAD, MUSIQUE], ids=lambda each: each.name)


def f1(prediction: str, gold: str, definition: Definition) -> float:
    overlap = token_overlap(prediction, [gold], definition)
    assert overlap is not None
    return overlap.f1


@pytest.mark.parametrize(
    ("prediction", "gold", "equal"),
    [
        ("The Eiffel Tower.", "eiffel tower", 1.0),
        ("María", "Marí", 0.0),  # a decomposing normalisation would take the last letter for an article
        ("Plan A", "plan", 1.0),
        ("Vitamin A", "vitamin", 1.0),
        ("", "A", 1.0),
        ("C++", "C#", 1.0),
        ("3.14", "314", 1.0),
        ("blue-green", "bluegreen", 1.0),
        ("Eiffel-Tower", "eiffel tower", 0.0),
        ("O’Brien", "O'Brien", 0.0),
        ("Beyoncé", "beyonce", 0.0),
        ("21 January 1950", "January 21, 1950", 0.0),
        ("Jonny Craig", 'Jonny" Craig', 1.0),
        ("theatre", "atre", 0.0),
    ],
)
def test_exact_match_is_the_official_normalised_equality(prediction: str, gold: str, equal: float) -> None:
    assert exact_match(prediction, [gold]) == equal


def test_word_order_costs_exact_match_and_nothing_else() -> None:
    assert f1("21 January 1950", "January 21, 1950", HOTPOT) == 1.0


def test_overlap_counts_a_repeated_word_as_often_as_both_sides_have_it() -> None:
    overlap = token_overlap("new york new york", ["New York City"], SQUAD)
    assert overlap is not None
    assert (overlap.precision, overlap.recall) == (2 / 4, 2 / 3)
    assert overlap.f1 == pytest.approx(4 / 7)


@pytest.mark.parametrize(("definition", "expected"), [(HOTPOT, 0.0), (TWO_WIKI, 0.0), (SQUAD, 0.4), (MUSIQUE, 0.4)])
def test_a_long_winded_yes_scores_zero_under_the_rule(definition: Definition, expected: float) -> None:
    assert f1("Yes, both are American", "yes", definition) == pytest.approx(expected)
    assert f1("yes", "Yes, both are American", definition) == pytest.approx(expected)
    assert f1("Yes.", "yes", definition) == 1.0


@pytest.mark.parametrize(("definition", "expected"), [(HOTPOT, 0.0), (TWO_WIKI, 0.0), (SQUAD, 0.0), (MUSIQUE, 1.0)])
def test_two_sides_without_tokens_agree_only_for_musique(definition: Definition, expected: float) -> None:
    overlap = token_overlap("the", ["A"], definition)
    assert overlap == (expected, expected, expected)
    assert exact_match("the", ["A"]) == 1.0


@EVERY
def test_one_empty_side_scores_nothing(definition: Definition) -> None:
    assert token_overlap("", ["Paris"], definition) == (0.0, 0.0, 0.0)
    assert token_overlap("Paris", ["A"], definition) == (0.0, 0.0, 0.0)


def test_each_part_takes_its_own_best_gold() -> None:
    overlap = token_overlap("new york city", ["york", "new york city in the united states"], TWO_WIKI)
    assert overlap is not None
    assert (overlap.precision, overlap.recall) == (1.0, 1.0)
    assert overlap.f1 == pytest.approx(2 * 1 * 0.5 / 1.5)


@pytest.mark.parametrize(
    "metric", [exact_match, cover_substring, cover_tokens, cover_labels, cover_raw, verdict_accuracy]
)
def test_a_single_str_as_golds_is_refused(metric: Callable[..., float | None]) -> None:
    with pytest.raises(TypeError, match="must be a list"):
        metric("Paris", "Paris")
    with pytest.raises(TypeError, match="must be a list"):
        token_overlap("Paris", "Paris", HOTPOT)


def test_without_golds_every_metric_is_undefined() -> None:
    assert exact_match("Paris", []) is None
    assert cover_substring("Paris", []) is None
    assert cover_tokens("Paris", []) is None
    assert cover_labels("Paris", []) is None
    assert cover_raw("Paris", []) is None
    assert verdict_accuracy("yes", []) is None
    assert token_overlap("Paris", [], HOTPOT) is None


def independent_f1(prediction: str, gold: str, definition: Definition) -> float:
    """F1 in another way: tokens are struck off one list for each token of the other."""
    sides = []
    for text in (prediction, gold):
        kept = "".join(character for character in text.lower() if character not in string.punctuation)
        sides.append(re.sub(r"\b(?:a|an|the)\b", " ", kept).split())
    said, meant = sides
    if (
        " ".join(said) != " ".join(meant)
        and definition.yes_no_rule
        and {"yes", "no", "noanswer"} & {*map(" ".join, sides)}
    ):
        return 0.0
    if not said and not meant:
        return definition.both_empty
    left = list(meant)
    for token in said:
        if token in left:
            left.remove(token)
    shared = len(meant) - len(left)
    return 2 * shared / (len(said) + len(meant))


@EVERY
@given(prediction=WORDS, gold=WORDS)
def test_f1_equals_an_independent_computation(definition: Definition, prediction: str, gold: str) -> None:
    assert f1(prediction, gold, definition) == pytest.approx(independent_f1(prediction, gold, definition))


@EVERY
@given(prediction=st.text(max_size=40), golds=st.lists(st.text(max_size=40), min_size=1, max_size=4))
def test_scores_stay_in_range_and_more_golds_never_hurt(
    definition: Definition, prediction: str, golds: list[str]
) -> None:
    for few, many in zip(
        [*(token_overlap(prediction, golds[:1], definition) or ()), exact_match(prediction, golds[:1])],
        [*(token_overlap(prediction, golds, definition) or ()), exact_match(prediction, golds)],
        strict=True,
    ):
        assert few is not None
        assert many is not None
        assert 0.0 <= few <= many <= 1.0


@pytest.mark.slow
@EVERY
@given(text=st.text(max_size=40))
def test_an_answer_equal_to_its_gold_is_perfect(definition: Definition, text: str) -> None:
    assert exact_match(text, [text]) == 1.0
    if normalize_answer(text):
        assert token_overlap(text, [text], definition) == (1.0, 1.0, 1.0)
        assert cover_substring(text, [text]) == 1.0 or normalize_answer(text) in ("yes", "no")
