"""Ranks, high-quality rates and scores of verifications, on worked examples."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.metrics.judges.answer_judge import (
    CRITERIA,
    high_quality,
    judgement_is_correct,
    ranks,
    references_contain_gold,
    revision_score,
)


def test_equal_scores_share_the_best_rank():
    scores = {"a": 0.9, "b": 0.9, "c": 0.4}
    assert ranks(scores, "correctness") == {"a": 1, "b": 1, "c": 3}


def test_little_bias_is_good():
    assert ranks({"a": 0.1, "b": 0.8, "c": 0.5}, "bias") == {"a": 1, "b": 3, "c": 2}


def test_a_missing_verdict_drops_the_question_for_all():
    assert ranks({"a": 0.1, "b": None}, "correctness") is None


@given(
    st.dictionaries(st.sampled_from("abcd"), st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=2),
    st.sampled_from(CRITERIA),
)
def test_a_rank_counts_those_that_are_better(scores, criterion):
    sign = -1 if criterion == "bias" else 1
    for system, rank in ranks(scores, criterion).items():
        assert rank == 1 + sum(sign * other > sign * scores[system] for other in scores.values())


def test_sums_of_ranks_fall_below_those_of_average_ranks_only_by_ties():
    """Three systems without ties sum to 6; the paper's citation column sums to 4.91, so ties share the best rank."""
    assert sum(ranks({"a": 1.0, "b": 0.5, "c": 0.0}, "citation_accuracy").values()) == 6
    assert sum(ranks({"a": 1.0, "b": 1.0, "c": 0.0}, "citation_accuracy").values()) == 5


@pytest.mark.parametrize(
    ("criterion", "score", "high"),
    [
        ("citation_accuracy", 1.0, True),
        ("correctness", 1 - 1e-12, True),
        ("truthfulness", 0.99, False),
        ("bias", 0.3, False),
        ("bias", 0.29, True),
        ("conciseness", 0.5, False),
        ("conciseness", 0.51, True),
    ],
)
def test_high_quality_is_strict_at_its_bounds(criterion, score, high):
    assert high_quality(score, criterion) is high


@pytest.mark.parametrize(
    ("judgement", "response", "score"),
    [
        ("true", "She was born on Quillon [1].", 1.0),
        ("true", "Nobody knows.", 0.0),
        ("false", "Nobody knows.", 1.0),
        ("unclear", "Nobody knows.", 1.0),
        ("unclear", "It was Quillon.", 0.0),
        (None, "Nobody knows.", 0.0),
    ],
)
def test_a_judgement_is_right_when_it_calls_right_what_holds_a_gold(judgement, response, score):
    assert judgement_is_correct(judgement, response, ["Quillon"]) == score


def test_without_golds_scores_are_undefined():
    assert judgement_is_correct("true", "It was Quillon.", []) is None
    assert references_contain_gold(["Quillon lies far out."], []) is None


def test_references_are_searched_for_golds_but_not_for_yes():
    assert references_contain_gold(["An island.", "The Quillon, far out."], ["quillon"]) == 1.0
    assert references_contain_gold(["An island."], ["quillon"]) == 0.0
    assert references_contain_gold(["Yes it is."], ["yes"]) is None
    assert references_contain_gold(["A true story."], ["yes", "True"]) is None


@pytest.mark.parametrize(
    ("revised", "due", "quality", "score"),
    [
        (True, True, 0.7, 0.7),
        (True, True, None, None),
        (True, False, 0.9, 0.0),
        (False, True, None, 0.0),
        (False, False, None, 1.0),
    ],
)
def test_a_revision_is_judged_by_its_timing_first(revised, due, quality, score):
    assert revision_score(revised, due, quality) == score
