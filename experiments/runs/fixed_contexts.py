"""Questions asked with references that were chosen for them, instead of what a retriever finds."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from signatures.common.errors import UserError, unknown
from signatures.common.files import sha256_text

if TYPE_CHECKING:
    from corpora.questions import Question
    from experiments.runs.files import Row
    from optimizers.contexts import FixedContext
    from signatures.types import Passage

Knowledge = Literal["closed", "partial", "complete", "balanced"]
KNOWLEDGE = ("closed", "partial", "complete", "balanced")
COMPLETE = "complete_references"  # field that a question gets: whether all its gold is among its references


@dataclass(frozen=True)
class References:
    """What each question of a run is given.

    Args:
        knowledge: "closed" (nothing), "partial", "complete", or "balanced" (as many partial as complete).
        n: References of a question.
        seed: Of the draw and the order.
        passages: Question id -> its references in the order shown.
    """

    knowledge: str
    n: int
    seed: int
    passages: "dict[str, tuple[Passage, ...]]"

    def of(self, id: str) -> "Sequence[Passage]":
        """Return the references of a question."""
        return self.passages[id]

    def describe(self) -> dict[str, Any]:
        """Return what a run's description says of them; the hash is over ids in order."""
        shown = {id: [passage.id for passage in passages] for id, passages in self.passages.items()}
        digest = sha256_text(json.dumps(shown, sort_keys=True))
        return {"knowledge": self.knowledge, "n": self.n, "seed": self.seed, "sha256": digest}


def choose_references(
    questions: "Sequence[Question]", passages: "Sequence[Passage]", *, knowledge: str, n: int = 5, seed: int = 0
) -> "tuple[list[Question], References, int]":
    """Return the questions that can be asked so, their references, and how many questions had to be left out.

    Each question returned says in its field `complete_references` whether all its gold is among them. Noise comes from
    the passages its benchmark shows with it (`context_ids`), else from all passages.

    Args:
        questions: With gold ids.
        passages: The corpus that holds gold and noise.
        knowledge: One of `KNOWLEDGE`; see `optimizers.contexts`.
        n: References of a question.
        seed: Of the draw and the order.

    Raises:
        UserError: The kind is unknown, or no question can be asked so.
    """
    from optimizers.contexts import balanced_contexts

    if knowledge not in KNOWLEDGE:
        raise unknown("kind of knowledge", knowledge, KNOWLEDGE)
    corpus = {passage.id: passage for passage in passages}
    chosen: list[FixedContext] = []
    if knowledge == "balanced":
        chosen = balanced_contexts(questions, corpus, n=n, seed=seed, spare=passages)
    else:
        chosen, first = _one_kind(questions, corpus, passages, knowledge, n, seed)
        if not chosen:
            raise first or UserError("There are no questions to give references to.")
    kept = [item.question.model_copy(update={COMPLETE: item.complete}) for item in chosen]
    given = {item.question.id: item.passages for item in chosen}
    return kept, References(knowledge, n, seed, given), len(questions) - len(kept)


def told_apart(rows: "Sequence[Row]") -> dict[str, Any]:
    """Return how well abstaining told partial from complete references: n, accuracy, F1 (positive: abstain), counts.

    Args:
        rows: Of a run with "balanced" references; failed questions count as answered.
    """
    from dataclasses import asdict

    from optimizers.contexts import reflection_scores

    asked = [row for row in rows if COMPLETE in (row.get("about") or {})]
    scores = reflection_scores([row["about"][COMPLETE] for row in asked], [row["abstained"] for row in asked])
    return {"n": scores.n, "accuracy": scores.accuracy, "f1": scores.f1, **asdict(scores)}


def told_apart_text(scores: dict[str, Any]) -> str:
    """Return what `told_apart` found as one line for people."""
    return (
        f"Abstaining, partial against complete references: accuracy {100 * scores['accuracy']:.1f}, "
        f"F1 {100 * scores['f1']:.1f} (n = {scores['n']})"
    )


def _one_kind(
    questions: "Sequence[Question]",
    corpus: "dict[str, Passage]",
    passages: "Sequence[Passage]",
    knowledge: Any,
    n: int,
    seed: int,
) -> "tuple[list[FixedContext], UserError | None]":
    """Return the questions with references of one kind, and why the first that has none has none."""
    from optimizers.contexts import fixed_context

    chosen, first = [], None
    for question in questions:
        try:
            chosen.append(fixed_context(question, corpus, condition=knowledge, n=n, seed=seed, spare=passages))
        except UserError as error:
            first = first or error
    return chosen, first
