import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corpora.retrievers.hybrid import fuse_scores

pairs = st.lists(
    st.tuples(st.floats(0, 50), st.floats(-1, 1)).map(lambda pair: (round(pair[0], 3), round(pair[1], 3))), max_size=20
)
weights = st.floats(0, 1)


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
