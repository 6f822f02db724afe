"""Whether a program knows when it is right: calibration error, and accuracy where it is most confident.

The confidence of an answer is `details["confidence"]`, else RetroRAG's P(yes) that the answer agrees with the second
one, given without reasoning (`details["agreement"]`), of the round whose answer was returned.
"""

import math
from collections.abc import Sequence
from typing import Any

from experiments.runs.files import Row

BINS = 10
COVERAGES = (50, 80)  # percent


def confidence_of(row: Row) -> float | None:
    """Return the confidence in [0, 1] of a row's answer; None if the program states none."""
    details = row.get("details") or {}
    stated = _probability(details.get("confidence"))
    if stated is not None:
        return stated
    rounds, hops = details.get("agreement"), row.get("hops") or []
    if not isinstance(rounds, list) or len(rounds) != len(hops):
        return None
    given = [p for p, hop in zip(rounds, hops, strict=True) if hop.get("answer") == row.get("answer")]
    return _probability(given[-1]) if given else None


def _probability(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 <= value <= 1 else None


def calibration_error(confidences: Sequence[float], correct: Sequence[float], *, bins: int = BINS) -> float | None:
    """Return the expected calibration error in [0, 1]; None without answers.

    Answers are put into `bins` intervals of confidence of equal width; the error is the mean of the distances between
    accuracy and confidence of the intervals, weighted by their answers (Guo et al., ICML 2017,
    https://arxiv.org/abs/1706.04599).

    Args:
        confidences: In [0, 1], one per answer.
        correct: The score of each answer, 0 or 1.
        bins: Number of intervals.
    """
    if not confidences:
        return None
    members: dict[int, list[tuple[float, float]]] = {}
    for confidence, score in zip(confidences, correct, strict=True):
        place = max(0, math.ceil(confidence * bins) - 1)  # an interval contains its upper end
        members.setdefault(place, []).append((confidence, score))
    gaps = [abs(math.fsum(confidence - score for confidence, score in inside)) for inside in members.values()]
    return math.fsum(gaps) / len(confidences)


def selective_accuracy(confidences: Sequence[float], correct: Sequence[float], coverage: float) -> float | None:
    """Return the mean score of the share `coverage` of the answers with the highest confidence; None without answers.

    Of answers with equal confidence at the border, each counts the same part (El-Yaniv and Wiener, JMLR 2010,
    https://jmlr.org/papers/v11/el-yaniv10a.html).

    Args:
        confidences: One per answer.
        correct: The score of each answer.
        coverage: Share of the answers that are given, above 0, at most 1; rounded up to whole answers.
    """
    if not confidences:
        return None
    wanted = left = math.ceil(coverage * len(confidences) - 1e-9)
    by_confidence: dict[float, list[float]] = {}
    for confidence, score in zip(confidences, correct, strict=True):
        by_confidence.setdefault(confidence, []).append(score)
    total = 0.0
    for confidence in sorted(by_confidence, reverse=True):
        scores = by_confidence[confidence]
        taken = min(left, len(scores))
        total += taken * math.fsum(scores) / len(scores)
        left -= taken
    return total / wanted


def calibration(rows: Sequence[Row], metrics: Sequence[str]) -> dict[str, float]:
    """Return calibration error and selective accuracy by each of these 0/1 metrics; empty without confidences.

    `confidence[known]` is the share of the answers with a confidence; the others are left out.
    """
    known = [(confidence, row) for row in rows if (confidence := confidence_of(row)) is not None]
    found: dict[str, float] = {}
    for name in metrics:
        pairs = [(p, row["scores"][name]) for p, row in known if row["scores"].get(name) is not None]
        confidences, correct = [p for p, _ in pairs], [float(score) for _, score in pairs]
        error = calibration_error(confidences, correct)
        if error is None:
            continue
        found[f"ece[{name}]"] = error
        for percent in COVERAGES:
            accuracy = selective_accuracy(confidences, correct, percent / 100)
            if accuracy is not None:
                found[f"selective[{name}]@{percent}"] = accuracy
    return {"confidence[known]": len(known) / len(rows), **found} if found else {}
