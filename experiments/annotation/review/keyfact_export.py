"""Exports the questions of a review with their reviewed key facts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from corpora.questions import Question, read_questions, write_questions
from experiments.annotation.review.cards import Card
from experiments.annotation.review.decisions import Ratings, agreed_decision
from experiments.annotation.review.rating_scales import EDIT
from experiments.annotation.review.review_folder import Review
from signatures.common.errors import UserError
from signatures.common.files import sha256_file


@dataclass(frozen=True)
class Exported:
    """Counts of an export: questions written, and key facts by decision."""

    questions: int
    accepted: int
    edited: int
    rejected: int
    undecided: int


def export_keyfacts(
    review: Review, out: Path, *, questions: Path | None = None, undecided: str = "refuse", overwrite: bool = False
) -> Exported:
    """Write the questions with accepted and edited key facts; rejected ones are removed, all other keys are kept.

    Args:
        review: A review of key facts.
        out: The new `questions.jsonl`.
        questions: Current path of the questions, if they were moved.
        undecided: "refuse" to export key facts without a final decision, "keep" or "drop" them.
        overwrite: Replace `out` if it exists.

    Raises:
        UserError: Key facts are undecided, the questions have changed, or `out` exists.
    """
    (source,) = review.description.sources
    path = questions or Path(source.path)
    if out.exists() and not overwrite:
        raise UserError(f"{out} exists. Set overwrite to replace it, or choose another file.")
    if not path.exists():
        raise UserError(f"{path} does not exist any more: name the moved file as questions.")
    if sha256_file(path) != source.sha256:
        raise UserError(
            f"{path} is not the file that was reviewed. Name that file as questions, or start a new review."
        )
    ratings, counts = review.ratings(), {"accept": 0, EDIT: 0, "reject": 0, "undecided": 0}
    facts = {card.question_id: _facts(card, review, ratings, undecided == "keep", counts) for card in review.cards}
    if counts["undecided"] and undecided == "refuse":
        raise UserError(
            f"{counts['undecided']} key facts are undecided. Resume the review in {review.folder}, or set undecided to "
            "keep or drop."
        )
    read = read_questions(path)
    write_questions(out, _with_facts(read, facts))
    return Exported(len(read), counts["accept"], counts[EDIT], counts["reject"], counts["undecided"])


def _facts(card: Card, review: Review, ratings: Ratings, keep: bool, counts: dict[str, int]) -> list[str]:
    facts = []
    for item in card.items:
        final = agreed_decision(ratings.of(item.id), review.scale, review.raters)
        value = "undecided" if final is None else str(final.value)
        counts[value] += 1
        if final is not None and value == EDIT:
            facts.append(final.text or item.text)
        elif value == "accept" or (value == "undecided" and keep):
            facts.append(item.text)
    return facts


def _with_facts(questions: Sequence[Question], facts: dict[str, list[str]]) -> list[Question]:
    return [_with_these(question, facts.get(question.id, question.key_facts)) for question in questions]


def _with_these(question: Question, facts: list[str]) -> Question:
    if facts == question.key_facts:
        return question
    # The checks are of the facts before the review, by position.
    outdated: dict[str, list[str]] = (
        {"key_fact_checks": []} if "key_fact_checks" in (question.model_extra or {}) else {}
    )
    return question.model_copy(update={"key_facts": facts, **outdated})
