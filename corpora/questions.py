"""`questions.jsonl`: questions with their gold, one per line; all keys but `id` and `question` are optional."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import ujson
from pydantic import BaseModel, ConfigDict, Field

from corpora.jsonl import bad_line, read_records, write_records
from corpora.passages import NotBlank, unique_ids
from signatures.common.errors import UserError

_CURE = 'Every line needs "id" (a text, unique) and "question" (a text that is not empty).'


class SubQuestion(BaseModel):
    """One hop of the gold decomposition.

    Args:
        question: Understandable on its own: answers of earlier hops are filled in.
        answer: The hop's answer; None where the benchmark gives none.
        gold_ids: Ids of the passages that answer it.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    question: str
    answer: str | None = None
    gold_ids: list[str] = []


class Question(BaseModel):
    """A question and all that a benchmark knows about it. Unknown keys are kept.

    Args:
        id: Unique in its file.
        question: What is asked, not blank.
        answers: Every accepted short answer, the main one first, aliases after it.
        gold_ids: Ids of the passages that together give the answer.
        gold_sentences: `(passage id, sentence number from 0)` of the sentences that give the answer.
        context_ids: Ids of the passages that the benchmark shows with the question, in its order.
        key_facts: Statements a long answer must make.
        sub_questions: The gold decomposition, in order.
        type: The benchmark's own kind of question, such as "bridge" or "comparison".
        split: "train", "dev", "test" or a name of the user's own.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    id: NotBlank
    question: NotBlank
    answers: list[str] = []
    gold_ids: list[str] = []
    gold_sentences: list[tuple[str, Annotated[int, Field(ge=0)]]] = []
    context_ids: list[str] = []
    key_facts: list[str] = []
    sub_questions: list[SubQuestion] = []
    type: str | None = None
    split: str | None = None


def read_questions(path: Path | str) -> list[Question]:
    """Return the questions of a file (plain, `.gz` or `.zst`) in its order.

    Raises:
        UserError: A bad line, a question without text, two questions with one id, or no question at all.
    """
    lines: dict[str, int] = {}
    questions: list[Question] = []
    for line, question in read_records(path, Question, _CURE):
        if question.id in lines:
            why = f"the id {question.id!r} stands on line {lines[question.id]} already"
            raise bad_line(path, line, why, "Give each question its own id.")
        lines[question.id] = line
        questions.append(question)
    if not questions:
        raise UserError(f"{str(path)!r} holds no question. {_CURE}")
    return questions


def write_questions(path: Path | str, questions: Iterable[Question]) -> int:
    """Write questions, one per line, and return how many; the file appears whole or not at all.

    Raises:
        UserError: Two questions share an id, or there is none.
    """
    return write_records(path, questions, unique_ids("questions", path))


def select(
    questions: Iterable[Question], *, split: str | None = None, limit: int | None = None, seed: int | None = None
) -> list[Question]:
    """Return a part of the questions, the same on every machine.

    Args:
        questions: Any order; it matters only where `seed` is None.
        split: Keep the questions of this split; None keeps all.
        limit: At most so many, counted from the front; at least 1.
        seed: Shuffle before cutting. The order depends on seed and ids alone, so a smaller limit gives a prefix of
            a larger one. None keeps the order of the file.

    Raises:
        UserError: No question has that split, or the limit is below 1.
    """
    chosen = list(questions)
    if split is not None:
        known = sorted({question.split or "(none)" for question in chosen})
        chosen = [question for question in chosen if question.split == split]
        if not chosen:
            raise UserError(f"No question has the split {split!r}. The file has: {', '.join(known) or 'nothing'}.")
    if limit is not None and limit < 1:
        raise UserError(f"The limit must be at least 1, got {limit}.")
    if seed is not None:
        chosen.sort(key=lambda question: (hashlib.sha256(f"{seed}:{question.id}".encode()).digest(), question.id))
    return chosen[:limit]


def split_hash(questions: Sequence[Question]) -> str:
    """Return the hexadecimal SHA-256 of the ids in their order: it tells one trainset from another."""
    return hashlib.sha256(ujson.dumps([question.id for question in questions]).encode()).hexdigest()
