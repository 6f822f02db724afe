import numpy as np
import pytest

from optimizers.metrics.entailment.calibrated import Weights, fit


def sample(n: int = 400):
    generator = np.random.default_rng(3)
    entailed = generator.random(n) < 0.8
    telling = entailed + generator.normal(0, 0.7, n)
    misleading = generator.normal(0, 0.7, n) - entailed
    return np.stack([telling, misleading], axis=1), entailed


def test_weights_are_never_negative_and_scores_rank() -> None:
    rows, entailed = sample()
    weights = fit(rows, entailed, ["a"] * len(rows), ["telling", "misleading"])
    assert weights.weight[0] > 0.5
    assert weights.weight[1] == pytest.approx(0, abs=1e-9)
    scores = weights(rows)
    assert scores[entailed].mean() > scores[~entailed].mean() + 0.2
    assert (scores[entailed] > 0.5).mean() > 0.6  # 0.5 is the threshold although 80 % are entailed
    assert (scores[~entailed] < 0.5).mean() > 0.6


def test_weights_come_back_from_json_with_the_same_numbers() -> None:
    rows, entailed = sample()
    weights = Weights.from_dict(fit(rows, entailed, ["a"] * len(rows), ["t", "m"]).as_dict())
    assert Weights.from_dict(weights.as_dict()) == weights
    np.testing.assert_array_equal(Weights.from_dict(weights.as_dict())(rows), weights(rows))


def test_a_large_data_set_does_not_outweigh_a_small_one() -> None:
    rows, entailed = sample()
    small, other = rows[:60], ~entailed[:60]  # here the second column tells
    both = fit(np.concatenate([rows, small]), [*entailed, *other], ["a"] * 400 + ["b"] * 60, ["t", "m"])
    assert abs(both.weight[0] - both.weight[1]) < 0.2


def test_one_label_alone_cannot_be_fitted() -> None:
    with pytest.raises(ValueError, match="'a' have one label"):
        fit(np.ones((3, 1)), [True] * 3, ["a"] * 3, ["t"])
