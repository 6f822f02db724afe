"""Cards for a review of key facts, each with the question's gold passages."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from corpora.passages import PassageRecord, read_passages
from corpora.questions import Question, drawn, read_questions
from experiments.annotation.review.cards import KEYFACTS, Card, Item, ReasoningStep, Reference, opaque_id, reference
from experiments.annotation.review.review_folder import Review, ReviewedFile, start_review
from signatures.common.files import sha256_file

PASSAGES = "passages.jsonl"


def default_passages(questions: Path) -> Path | None:
    """Return the corpus in the folder of a file of questions; None if there is none."""
    path = questions.parent / PASSAGES
    return path if path.exists() else None


def pick_passages(path: Path | None, ids: Iterable[str]) -> dict[str, PassageRecord]:
    """Return id -> passage for these ids, read one by one because the corpus may be large; empty without a file."""
    needed = set(ids)
    if path is None or not needed:
        return {}
    return {passage.id: passage for passage in read_passages(path) if passage.id in needed}


def gold_references(
    question: Question, passages: dict[str, PassageRecord], numbers: Mapping[str, int] = MappingProxyType({})
) -> list[Reference]:
    """Return the available gold passages of a question with their gold sentences marked.

    Args:
        question: The question.
        passages: Passages by id.
        numbers: Ids of passages -> the numbers by which an answer cites them.
    """
    return [
        reference(
            passages[passage_id],
            gold=True,
            gold_sentences=[number for owner, number in question.gold_sentences if owner == passage_id],
            number=numbers.get(passage_id),
        )
        for passage_id in dict.fromkeys(question.gold_ids)
        if passage_id in passages
    ]


def _checks(question: Question) -> list[list[tuple[str, str]]]:
    """Return the results of the automatic checks of each key fact as they are shown; empty lists if there are none."""
    checks = (question.model_extra or {}).get("key_fact_checks")
    if not isinstance(checks, list) or len(checks) != len(question.key_facts):  # facts may have been edited since
        return [[] for _ in question.key_facts]
    return [_check(check) for check in checks]


def _check(check: Any) -> list[tuple[str, str]]:
    if not isinstance(check, dict):
        return []
    entailed, supported, repeats = (check.get(name) for name in ("entailed", "supported", "duplicate_of"))
    lines = []
    if isinstance(supported, bool):
        probability = f" (probability {entailed:.2f})" if isinstance(entailed, int | float) else ""
        lines.append(("Automatic check", f"{'' if supported else 'not '}entailed by the references{probability}"))
    if isinstance(repeats, int):
        lines.append(("Automatic check", f"repeats key fact {repeats + 1}"))
    return lines


def _card(question: Question, passages: dict[str, PassageRecord]) -> Card:
    return Card(
        id=opaque_id("card", KEYFACTS.name, question.id),
        question_id=question.id,
        question=question.question,
        golds=question.answers,
        steps=[ReasoningStep(question=hop.question, answer=hop.answer or "") for hop in question.sub_questions],
        references=gold_references(question, passages),
        items=[
            Item(id=opaque_id(KEYFACTS.name, question.id, part, fact), part=part, text=fact, details=checks)
            for part, (fact, checks) in enumerate(zip(question.key_facts, _checks(question), strict=True))
        ],
    )


def review_keyfacts(
    questions: Path, passages: Path | None, folder: Path, *, raters: int | None = None, limit: int | None = None
) -> Review:
    """Start or resume a review of the key facts in a file of questions.

    Args:
        questions: `questions.jsonl`; questions without key facts are skipped and counted.
        passages: Corpus with the gold passages; None to show no passages.
        folder: Folder of the review.
        raters: Reviewers per key fact; None for one.
        limit: Maximum number of questions with key facts, drawn by a hash of their ids.

    Raises:
        UserError: No question has key facts, or the folder contains something else.
    """
    read = read_questions(questions)
    chosen = drawn((question for question in read if question.key_facts), limit, lambda question: question.id)
    available = pick_passages(passages, (passage for question in chosen for passage in question.gold_ids))
    without = sum(not question.key_facts for question in read)
    missing = sum(passage not in available for question in chosen for passage in question.gold_ids)
    left_out = {"questions without key facts": without, "gold passages not in the corpus": missing}
    return start_review(
        folder,
        KEYFACTS,
        [_card(question, available) for question in chosen],
        [ReviewedFile(label="questions", path=str(questions), sha256=sha256_file(questions))],
        raters=raters,
        left_out={reason: count for reason, count in left_out.items() if count},
    )
