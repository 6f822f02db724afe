"""Records of scored evidence: which candidates were kept, which were dropped, and why; and the gate of inferences."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from programs.parts.gates import Gate
from programs.parts.passages import titled_text
from programs.parts.ranking import Key, passes, passing, top
from signatures.types import Candidate, Passage

_UNSCORED = "kept without a score"
Score = float | None  # None if unparseable


def passage_candidates(
    passages: Sequence[Passage], scores: Mapping[str, float | None], kept: Collection[str], size: int
) -> list[Candidate]:
    """Return the records of passages of which the best `size` were kept.

    Args:
        passages: The candidates, in the order they were scored.
        scores: P(yes) by passage id, None if unparseable; empty if all were kept without a score.
        kept: Ids of those kept.
        size: The number kept at most.
    """
    reasons = rank_reasons(scores, size)
    return [
        Candidate(
            text=titled_text(passage),
            passage_id=passage.id,
            score=scores.get(passage.id),
            kept=passage.id in kept,
            reason=reasons.get(passage.id, _UNSCORED),
        )
        for passage in passages
    ]


def inference_candidates(
    inferences: Sequence[str],
    scores: Mapping[str, float | None],
    kept: Collection[str],
    size: int,
    gates: Mapping[tuple[str, str], float | None],
    thresholds: Mapping[str, float],
) -> list[Candidate]:
    """Return the records of inferences that were gated and of which the best `size` were kept.

    Args:
        inferences: The candidates, in the order they were scored.
        scores: P(yes) by inference, None if unparseable; empty if all that passed were kept without a score.
        kept: Those kept.
        size: The number kept at most.
        gates: P(yes) of each gate that was applied, by inference and name of the gate; None if unparseable.
        thresholds: The bound of each gate, which its score must exceed.
    """
    gates_of = dict(zip(inferences, scores_of(inferences, gates), strict=True))
    failures = {text: gate_failures(gates_of[text], thresholds) for text in inferences}
    ranked = {text: score for text, score in scores.items() if not failures[text]}
    reasons = rank_reasons(ranked, size)
    return [
        Candidate(
            text=text,
            score=scores.get(text),
            kept=text in kept,
            reason=failures[text] or reasons.get(text, _UNSCORED),
            gates=gates_of[text],
        )
        for text in inferences
    ]


def scores_of(inferences: Sequence[str], gates: Mapping[tuple[str, str], Score]) -> list[dict[str, Score]]:
    """Return the scores of each inference by name of the gate, given them by inference and name."""
    return [{name: score for (gated, name), score in gates.items() if gated == text} for text in inferences]


def gate_values(
    inferences: Sequence[str],
    gates: Mapping[tuple[str, str], Score],
    scores: Mapping[str, Score],
    size: int,
) -> dict[str, Any]:
    """Return the values of the gate `EVIDENCE` for inferences, their gates and scores as for `inference_candidates`."""
    ranked = [scores[text] for text in inferences] if scores else None
    return {"gates": scores_of(inferences, gates), "scores": ranked, "size": size}


def best_inferences(values: Mapping[str, Any], knobs: Mapping[str, Any]) -> list[int]:
    """Return the positions of the inferences to keep, best first: those that pass their gates, by score.

    Args:
        values: `gates`, the scores of each inference by name of the gate; `scores`, by which they are ranked, or None
            to keep all that pass, in order; `size`, the number kept at most if they are ranked.
        knobs: `relevance_gate` and `attribution_gate`.
    """
    gates, scores = values["gates"], values["scores"]
    thresholds = {"relevance": knobs["relevance_gate"], "attribution": knobs["attribution_gate"]}
    by_key = {(place, name): score for place, found in enumerate(gates) for name, score in found.items()}
    passed = passing(range(len(gates)), by_key, thresholds)
    return passed if scores is None else top({place: scores[place] for place in passed}, values["size"])


EVIDENCE = Gate(best_inferences, ("relevance_gate", "attribution_gate"))


def untested_candidates(inferences: Sequence[str], size: int) -> list[Candidate]:
    """Return the records of inferences that were dropped untested, because only the first `size` are tested."""
    reason = f"beyond the first {size} of the round"
    return [Candidate(text=text, kept=False, reason=reason) for text in inferences]


def rank_reasons(scores: Mapping[Key, float | None], size: int) -> dict[Key, str]:
    """Return the score and rank of each key as text, with a note for ranks beyond `size`."""
    return {
        key: f"{_shown('score', scores[key])}, rank {rank} of {len(scores)}"
        + (f", beyond the best {size}" if rank > size else "")
        for rank, key in enumerate(top(scores, len(scores)), start=1)
    }


def gate_failures(scores: Mapping[str, float | None], thresholds: Mapping[str, float]) -> str:
    """Return the gates that were not passed, with score and threshold, as text; empty if all were passed."""
    failed = {name: score for name, score in scores.items() if not passes(score, thresholds[name])}
    return "; ".join(
        _shown(name, score) + ("" if score is None else f", not above {thresholds[name]:g}")
        for name, score in failed.items()
    )


def _shown(name: str, score: float | None) -> str:
    return f"{name} unparseable" if score is None else f"{name} {score:.2f}"
