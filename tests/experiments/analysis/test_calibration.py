"""Calibration error and selective accuracy, computed by hand."""

from typing import Any

import pytest

from experiments.analysis.summary import (
    answered_scores,
    auroc,
    calibration,
    calibration_error,
    confidence_of,
    selective_accuracy,
)


def test_calibration_error_weighs_the_gaps_of_intervals_by_their_answers() -> None:
    # (0.9, 1.0]: confidence .95, accuracy .5, two answers; (0.1, 0.2]: confidence .15 and .2, accuracy 0.
    error = calibration_error([0.95, 0.95, 0.15, 0.2], [1, 0, 0, 0])
    assert error == pytest.approx((2 * 0.45 + 2 * 0.175) / 4)
    assert calibration_error([1.0, 0.0], [1, 0]) == 0.0
    assert calibration_error([1.0, 0.0], [0, 1]) == 1.0
    assert calibration_error([], []) is None
    # One interval: the distance of the two means.
    assert calibration_error([0.6, 0.8], [1, 0], bins=1) == pytest.approx(0.2)


def test_selective_accuracy_is_that_of_the_most_confident() -> None:
    confidences, correct = [0.9, 0.8, 0.3, 0.1], [1, 1, 0, 0]
    assert [selective_accuracy(confidences, correct, share) for share in (0.25, 0.5, 0.75, 1)] == [1, 1, 2 / 3, 0.5]
    assert selective_accuracy([], [], 0.5) is None


def test_equal_confidences_at_the_border_count_the_same_part_whatever_their_order() -> None:
    assert selective_accuracy([0.5, 0.5, 0.9, 0.5], [1, 0, 1, 0], 0.5) == pytest.approx((1 + 1 / 3) / 2)
    assert selective_accuracy([0.5, 0.5, 0.9, 0.5], [0, 0, 1, 1], 0.5) == pytest.approx((1 + 1 / 3) / 2)


def row(answer: str, score: float | None, **details: Any) -> dict[str, Any]:
    hops = [{"question": "q", "answer": text} for text in ("Rome", "Oslo", "Oslo")]
    return {"answer": answer, "scores": {"em": score}, "details": details, "hops": hops}


def test_the_confidence_is_stated_or_the_agreement_of_the_round_whose_answer_was_returned() -> None:
    assert confidence_of(row("Oslo", 1, agreement=[0.1, 0.4, 0.9])) == 0.9
    assert confidence_of(row("Rome", 1, agreement=[0.1, 0.4, 0.9])) == 0.1
    assert confidence_of(row("Oslo", 1, confidence=0.7, agreement=[0.1, 0.4, 0.9])) == 0.7
    for details in ({}, {"agreement": [0.1]}, {"agreement": [0.1, 0.2, None]}, {"confidence": True}, {"agreement": 3}):
        assert confidence_of(row("Oslo", 1, **details)) is None
    assert confidence_of(row("Paris", 1, agreement=[0.1, 0.4, 0.9])) is None
    assert confidence_of({"answer": "x", "scores": {}}) is None


def test_a_run_without_confidences_has_no_calibration_and_unknown_ones_are_counted() -> None:
    assert calibration([row("Oslo", 1.0)], ["em"]) == {}
    known = [row("Oslo", 1.0, confidence=0.75), row("Oslo", 0.0, confidence=0.25), row("Oslo", 1.0)]
    assert calibration(known, ["em"]) == {
        "confidence[known]": pytest.approx(2 / 3),
        "ece[em]": pytest.approx(0.25),
        "auroc[em]": 1.0,
        "selective[em]@50": 1.0,
        "selective[em]@80": 0.5,
        "selective[em]@100": 0.5,
    }
    assert calibration([row("Oslo", None, confidence=0.75)], ["em"]) == {}


def test_a_question_that_failed_is_no_answer_that_was_given() -> None:
    ended = [(row("Oslo", 1.0, confidence=0.75), {}), (row("Oslo", 0.0, confidence=0.25), {})]
    ended += [(row("", 0.0, confidence=0.9), {"abstained": True}), (row("", 0.0), {"error": "ValueError: no"})]
    rows = [{"abstained": False, "error": None, **of, **fields} for of, fields in ended]
    assert answered_scores(rows, ["em"]) == {"answered[em]": 0.5}
    assert answered_scores([rows[0], rows[3]], ["em"]) == {}  # it never abstained
    found = calibration(rows, ["em"])
    assert (found["confidence[known]"], found["ece[em]"]) == (1.0, pytest.approx(0.25))


def test_auroc_counts_pairs_of_a_right_and_a_wrong_answer_and_equal_ones_half() -> None:
    assert auroc([0.9, 0.5, 0.5, 0.1], [1, 1, 0, 0]) == pytest.approx(3.5 / 4)
    assert auroc([0.1, 0.9], [1, 0]) == 0
    assert auroc([0.5, 0.5, 0.5], [1, 0, 0]) == 0.5
    assert auroc([0.5, 0.9], [1, 1]) is None
    assert auroc([], []) is None


def test_auroc_is_that_of_sklearn() -> None:
    from random import Random

    draw = Random(1)
    confidences = [round(draw.random(), 1) for _ in range(300)]
    correct = [float(draw.random() < confidence**2) for confidence in confidences]
    reference = pytest.importorskip("sklearn.metrics").roc_auc_score
    assert auroc(confidences, correct) == pytest.approx(float(reference(correct, confidences)))


def test_calibration_error_is_that_of_torchmetrics() -> None:
    from random import Random

    torch = pytest.importorskip("torch")
    reference = pytest.importorskip("torchmetrics.functional.classification")
    draw = Random(0)
    confidences = [draw.random() for _ in range(300)]
    correct = [float(draw.random() < confidence**2) for confidence in confidences]
    expected = reference.binary_calibration_error(
        torch.tensor(confidences), torch.tensor(correct).int(), n_bins=10, norm="l1"
    )
    assert calibration_error(confidences, correct) == pytest.approx(float(expected), abs=1e-5)
