"""Key facts beside their references, and the questions with what people made of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpora.passages import PassageRecord, read_passages
from corpora.questions import Question, read_questions, write_questions
from experiments.annotation.review.cards import Card, Item, Reference, Step, opaque_id, reference
from experiments.annotation.review.decisions import Ratings, settled
from experiments.annotation.review.folder import Review, Source, create
from experiments.annotation.review.scales import EDIT, KEYFACTS
from signatures.common.errors import UserError
from signatures.common.files import sha256_file

PASSAGES = "passages.jsonl"


def passages_beside(questions: Path) -> Path | None:
    """Return the corpus that stands beside a file of questions; None where there is none."""
    path = questions.parent / PASSAGES
    return path if path.exists() else None


def pick_passages(path: Path | None, ids: Iterable[str]) -> dict[str, PassageRecord]:
    """Return the passages of these ids by id, read one by one so that the corpus may be large; {} without a file."""
    wanted = set(ids)
    if path is None or not wanted:
        return {}
    return {passage.id: passage for passage in read_passages(path) if passage.id in wanted}


def gold_references(question: Question, passages: dict[str, PassageRecord]) -> list[Reference]:
    """Return the gold passages of a question that are at hand, their gold sentences marked."""
    return [
        reference(
            passages[passage_id],
            gold=True,
            gold_sentences=[number for owner, number in question.gold_sentences if owner == passage_id],
        )
        for passage_id in dict.fromkeys(question.gold_ids)
        if passage_id in passages
    ]


def _card(question: Question, passages: dict[str, PassageRecord]) -> Card:
    return Card(
        id=opaque_id("card", KEYFACTS.name, question.id),
        question_id=question.id,
        question=question.question,
        golds=question.answers,
        steps=[Step(question=hop.question, answer=hop.answer or "") for hop in question.sub_questions],
        references=gold_references(question, passages),
        items=[
            Item(id=opaque_id(KEYFACTS.name, question.id, part, fact), part=part, text=fact)
            for part, fact in enumerate(question.key_facts)
        ],
    )


def review_keyfacts(
    questions: Path, passages: Path | None, folder: Path, *, raters: int | None = None, limit: int | None = None
) -> Review:
    """Start or go on with a review of the key facts in a file of questions.

    Args:
        questions: `questions.jsonl`; questions without key facts are left out and counted.
        passages: Corpus that holds the gold passages; None shows none.
        folder: Of the review.
        raters: People per key fact; None for one.
        limit: Only the first so many questions with key facts.

    Raises:
        UserError: No question has key facts, or the folder holds something else.
    """
    read = read_questions(questions)
    chosen = [question for question in read if question.key_facts][:limit]
    at_hand = pick_passages(passages, (passage for question in chosen for passage in question.gold_ids))
    without = sum(not question.key_facts for question in read)
    missing = sum(passage not in at_hand for question in chosen for passage in question.gold_ids)
    left_out = {"questions without key facts": without, "gold passages not in the corpus": missing}
    return create(
        folder,
        KEYFACTS,
        [_card(question, at_hand) for question in chosen],
        [Source(label="questions", path=str(questions), sha256=sha256_file(questions))],
        raters=raters,
        left_out={reason: count for reason, count in left_out.items() if count},
    )


@dataclass(frozen=True)
class Exported:
    """What became of the key facts: counts, in the written file."""

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
        questions: Where the questions stand now, if they were moved.
        undecided: What to do with key facts that people have not settled: "refuse" to export, "keep" or "drop" them.
        overwrite: Replace a file that stands at `out`.

    Raises:
        UserError: Key facts are unsettled, the questions have changed, or `out` exists.
    """
    (source,) = review.description.sources
    path = questions or Path(source.path)
    if out.exists() and not overwrite:
        raise UserError(f"{out} exists. Add --overwrite to replace it, or choose another file.")
    if not path.exists():
        raise UserError(f"{path} is gone: name the reviewed questions with --questions.")
    if sha256_file(path) != source.sha256:
        raise UserError(f"{path} is not the file that was reviewed. Name that one with --questions, or review anew.")
    ratings, counts = review.ratings(), {"accept": 0, EDIT: 0, "reject": 0, "undecided": 0}
    facts = {card.question_id: _facts(card, review, ratings, undecided == "keep", counts) for card in review.cards}
    if counts["undecided"] and undecided == "refuse":
        raise UserError(
            f"{counts['undecided']} key facts are not settled. Go on with "
            f"`verihop review resume {review.folder} --reviewer NAME`, or "
            "add --undecided keep or --undecided drop."
        )
    read = read_questions(path)
    write_questions(out, _with_facts(read, facts))
    return Exported(len(read), counts["accept"], counts[EDIT], counts["reject"], counts["undecided"])


def _facts(card: Card, review: Review, ratings: Ratings, keep: bool, counts: dict[str, int]) -> list[str]:
    facts = []
    for item in card.items:
        final = settled(ratings.of(item.id), review.scale, review.raters)
        value = "undecided" if final is None else str(final.value)
        counts[value] += 1
        if final is not None and value == EDIT:
            facts.append(final.text or item.text)
        elif value == "accept" or (value == "undecided" and keep):
            facts.append(item.text)
    return facts


def _with_facts(questions: Sequence[Question], facts: dict[str, list[str]]) -> list[Question]:
    return [
        question.model_copy(update={"key_facts": facts[question.id]}) if question.id in facts else question
        for question in questions
    ]
