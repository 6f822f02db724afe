"""Scores of CoV-RAG's verification per question: its judgement, its format, and the references before and after.

He et al., "Retrieving, Rethinking and Revising", Findings of EMNLP 2024, section 4.3, table 6. All are None for
programs without verification. https://arxiv.org/abs/2410.05801
"""

from typing import Any

from optimizers.metrics.fields import golds_of, passages_of
from optimizers.metrics.judges.dimensions import judgement_is_correct, references_contain_gold


def _details(prediction: Any) -> dict[str, Any]:
    details = getattr(prediction, "details", None) or {}
    return details if "verifications" in details else {}


def _hops(prediction: Any) -> list[Any]:
    return getattr(prediction, "hops", None) or []


def _judged(verification: dict[str, Any]) -> str:
    return verification["judgement"] or ("false" if verification["revised_question"] else "true")


def judgement(example: Any, prediction: Any) -> float | None:
    """Return 1.0 if the first verification judged the first response correctly, else 0.0.

    Without the chain there is no judgement; an empty revised question then means "true" (section 4.3).
    """
    details, hops = _details(prediction), _hops(prediction)
    if not details or not hops or not (details["verifications"] or details.get("verification_failures")):
        return None
    first = _judged(details["verifications"][0]) if details["verifications"] else None
    return judgement_is_correct(first, hops[0].answer, golds_of(example))


def form(example: Any, prediction: Any) -> float | None:
    """Return the share in [0, 1] of a question's verifications that could be parsed."""
    details = _details(prediction)
    if not details:
        return None
    parsed, failed = len(details["verifications"]), int(details.get("verification_failures", 0))
    return parsed / (parsed + failed) if parsed + failed else None


def first_references(example: Any, prediction: Any) -> float | None:
    """Return 1.0 if the references of the first hop contain a gold answer, else 0.0."""
    return _references(example, prediction, hop=0)


def last_references(example: Any, prediction: Any) -> float | None:
    """Return 1.0 if the references of the last hop contain a gold answer, else 0.0."""
    return _references(example, prediction, hop=-1)


def _references(example: Any, prediction: Any, *, hop: int) -> float | None:
    hops = _hops(prediction)
    if not _details(prediction) or not hops:
        return None
    texts = {passage.id: f"{passage.title} {passage.text}" for passage in passages_of(prediction)}
    return references_contain_gold([texts[id] for id in hops[hop].passage_ids if id in texts], golds_of(example))
