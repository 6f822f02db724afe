"""Fixed contexts: passages chosen for each question in advance, in place of what a retriever would return."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from signatures.common.errors import UserError, unknown
from signatures.common.files import sha256_text

if TYPE_CHECKING:
    from corpora.questions import Question
    from optimizers.contexts import FixedContext
    from signatures.types import Passage

KNOWLEDGE = ("closed", "partial", "complete", "balanced")
COMPLETE = "complete_references"  # field added to each question: whether its context contains all its gold


@dataclass(frozen=True)
class FixedContexts:
    """The passages each question of a run is asked with.

    Args:
        knowledge: "closed" (none), "partial", "complete", or "balanced" (as many partial as complete contexts).
        n: Passages per question.
        seed: Seed of the sample and of the order.
        passages: Question id -> its passages in the order shown.
    """

    knowledge: str
    n: int
    seed: int
    passages: "dict[str, tuple[Passage, ...]]"

    def of(self, id: str) -> "Sequence[Passage]":
        """Return the passages of a question."""
        return self.passages[id]

    def describe(self) -> dict[str, Any]:
        """Return what `run.json` records; the hash is over passage ids in order."""
        shown = {id: [passage.id for passage in passages] for id, passages in self.passages.items()}
        digest = sha256_text(json.dumps(shown, sort_keys=True))
        return {"knowledge": self.knowledge, "n": self.n, "seed": self.seed, "sha256": digest}


class Chosen(NamedTuple):
    """Questions that have a context, their contexts, and how many questions were excluded."""

    questions: "list[Question]"
    contexts: FixedContexts
    excluded: int


def choose_contexts(
    questions: "Sequence[Question]", passages: "Sequence[Passage]", *, knowledge: str, n: int = 5, seed: int = 0
) -> Chosen:
    """Choose a fixed context for each question; questions without enough gold or noise are excluded.

    Each returned question has the field `complete_references`: whether its context contains all its gold. Noise comes
    from the passages its benchmark lists with it (`context_ids`), else from all passages.

    Args:
        questions: With gold ids.
        knowledge: One of `KNOWLEDGE`; see `optimizers.contexts`.
        n: Passages per question.
        seed: Seed of the sample and of the order.

    Raises:
        UserError: The kind of knowledge is unknown, or no question can have such a context.
    """
    from optimizers.contexts import balanced_contexts

    if knowledge not in KNOWLEDGE:
        raise unknown("kind of knowledge", knowledge, KNOWLEDGE)
    corpus = {passage.id: passage for passage in passages}
    chosen: list[FixedContext] = []
    if knowledge == "balanced":
        chosen = balanced_contexts(questions, corpus, n=n, seed=seed, spare=passages)
    else:
        chosen, first_error = _of_one_kind(questions, corpus, passages, knowledge, n, seed)
        if not chosen:
            raise first_error or UserError("No questions to choose contexts for.")
    kept = [item.question.model_copy(update={COMPLETE: item.complete}) for item in chosen]
    contexts = FixedContexts(knowledge, n, seed, {item.question.id: item.passages for item in chosen})
    return Chosen(kept, contexts, len(questions) - len(kept))


def _of_one_kind(
    questions: "Sequence[Question]",
    corpus: "dict[str, Passage]",
    passages: "Sequence[Passage]",
    knowledge: Any,
    n: int,
    seed: int,
) -> "tuple[list[FixedContext], UserError | None]":
    from optimizers.contexts import fixed_context

    chosen, first_error = [], None
    for question in questions:
        try:
            chosen.append(fixed_context(question, corpus, condition=knowledge, n=n, seed=seed, spare=passages))
        except UserError as error:
            first_error = first_error or error
    return chosen, first_error


def abstention_scores(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return n, accuracy, F1 and the four counts of abstaining on partial contexts (positive class: abstain).

    Args:
        rows: Of a run with "balanced" contexts; failed questions count as answered.
    """
    from optimizers.contexts import reflection_scores

    asked = [row for row in rows if COMPLETE in (row.get("about") or {})]
    scores = reflection_scores([row["about"][COMPLETE] for row in asked], [row["abstained"] for row in asked])
    return {"n": scores.n, "accuracy": scores.accuracy, "f1": scores.f1, **asdict(scores)}


def abstention_text(scores: dict[str, Any]) -> str:
    """Return the result of `abstention_scores` as one line of text."""
    return (
        f"Abstaining, partial against complete references: accuracy {100 * scores['accuracy']:.1f}, "
        f"F1 {100 * scores['f1']:.1f} (n = {scores['n']})"
    )
