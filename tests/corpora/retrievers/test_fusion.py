import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.retrievers.hybrid import fuse_scores, reciprocal_rank_fusion
from signatures.common.errors import UserError

pairs = st.lists(
    st.tuples(st.floats(0, 50), st.floats(-1, 1)).map(lambda pair: (round(pair[0], 3), round(pair[1], 3))), max_size=20
)
weights = st.floats(0, 1)
rankings = st.lists(st.lists(st.integers(0, 15), unique=True, max_size=12), max_size=4)


def split(candidates: list[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(candidates, dtype=float).reshape(-1, 2)
    return table[:, 0], table[:, 1]


@given(pairs, weights)
def test_fused_scores_stay_between_zero_and_one(candidates, weight):
    fused = fuse_scores(*split(candidates), weight)
    assert fused.shape == (len(candidates),)
    assert ((fused >= 0) & (fused <= 1 + 1e-12)).all()


@given(pairs, weights, st.randoms(use_true_random=False))
def test_a_candidates_score_does_not_depend_on_its_place(candidates, weight, random):
    order = list(range(len(candidates)))
    random.shuffle(order)
    fused = fuse_scores(*split(candidates), weight)
    shuffled = fuse_scores(*split([candidates[place] for place in order]), weight)
    np.testing.assert_allclose(shuffled, fused[order])


@given(pairs.filter(bool))
def test_the_extreme_weights_give_each_part_alone(candidates):
    bm25, cosines = split(candidates)
    for weight, part in ((0.0, bm25), (1.0, cosines)):
        fused = fuse_scores(bm25, cosines, weight)
        better = part[:, None] > part[None, :]
        assert (fused[:, None] >= fused[None, :])[better].all()


@given(pairs.filter(bool), weights, st.integers(0, 19))
def test_a_candidate_better_in_both_parts_is_never_behind(candidates, weight, place):
    bm25, cosines = split(candidates)
    fused = fuse_scores(bm25, cosines, weight)
    mine = place % len(candidates)
    below = (bm25 <= bm25[mine]) & (cosines <= cosines[mine])
    assert (fused[mine] >= fused[below] - 1e-12).all()


def test_the_formula_on_a_worked_example():
    fused = fuse_scores(np.array([4.0, 2.0, 0.0]), np.array([0.0, 0.5, 1.0]), 0.7)
    np.testing.assert_allclose(fused, [0.3 + 0.35, 0.15 + 0.525, 0.7])


def test_no_word_match_leaves_the_dense_order():
    assert np.argsort(-fuse_scores(np.zeros(3), np.array([0.1, 0.9, 0.5]), 0.7)).tolist() == [1, 2, 0]


@given(rankings, st.integers(0, 100))
def test_rank_fusion_keeps_every_item_once_and_descends(lists, k):
    fused = reciprocal_rank_fusion(lists, k)
    assert sorted(item for item, _ in fused) == sorted({item for ranking in lists for item in ranking})
    scores = [score for _, score in fused]
    assert scores == sorted(scores, reverse=True)
    for item, score in fused:
        assert score == pytest.approx(sum(1 / (k + r.index(item) + 1) for r in lists if item in r))


@given(st.lists(st.integers(), unique=True, max_size=20), st.integers(1, 4))
def test_agreeing_rankings_fuse_to_themselves(ranking, copies):
    assert [item for item, _ in reciprocal_rank_fusion([ranking] * copies)] == ranking


def test_a_tie_goes_to_the_item_seen_first():
    assert [item for item, _ in reciprocal_rank_fusion([["a", "b"], ["b", "a"]])] == ["a", "b"]


def test_a_negative_constant_is_refused():
    with pytest.raises(UserError, match="k=-1"):
        reciprocal_rank_fusion([["a"]], -1)
