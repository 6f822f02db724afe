"""`questions.jsonl`: questions with their gold, one per line; only `id` and `question` are required."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import ujson
from pydantic import BaseModel, ConfigDict, Field

from corpora.compressed import read_held
from corpora.jsonl import bad_line, read_records, write_records
from corpora.passages import NotBlank, unique_ids
from signatures.common.errors import UserError

_RULE = 'Every line needs "id" (a unique string) and "question" (a string that is not empty).'


class SubQuestion(BaseModel):
    """One hop of the gold decomposition.

    Args:
        question: Self-contained: answers of earlier hops are filled in.
        answer: The hop's answer; None if the benchmark states none.
        gold_ids: Ids of the passages that answer it.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    question: str
    answer: str | None = None
    gold_ids: list[str] = []


class Question(BaseModel):
    """A question and its gold; unknown keys are kept.

    Args:
        id: Unique in its file.
        question: The text, not blank.
        answers: All accepted short answers, the main one first, then aliases.
        gold_ids: Ids of the passages that together give the answer.
        gold_sentences: `(passage id, sentence number from 0)` of the sentences that give the answer.
        context_ids: Ids of the passages that the benchmark provides with the question, in its order.
        key_facts: Statements that a long answer must contain.
        sub_questions: The gold decomposition, in order.
        type: The benchmark's name for the kind of question, such as "bridge" or "comparison".
        split: "train", "dev", "test" or another name.
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
    """Return the questions of a file (plain, `.gz`, `.bz2` or `.zst`) in its order.

    Raises:
        UserError: An invalid line, a question without text, two questions with one id, or no question.
    """
    lines: dict[str, int] = {}
    questions: list[Question] = []
    for line, question in read_records(path, Question, _RULE, read_held(path)):
        if question.id in lines:
            why = f"the id {question.id!r} is already on line {lines[question.id]}"
            raise bad_line(path, line, why, "Give each question its own id.")
        lines[question.id] = line
        questions.append(question)
    if not questions:
        raise UserError(f"{str(path)!r} contains no question. {_RULE}")
    return questions


def write_questions(path: Path | str, questions: Iterable[Question]) -> int:
    """Write questions, one per line, and return their number; the file appears complete or not at all.

    Raises:
        UserError: Two questions share an id, or there is none.
    """
    return write_records(path, questions, unique_ids("questions", path))


def select(
    questions: Iterable[Question], *, split: str | None = None, limit: int | None = None, seed: int | None = None
) -> list[Question]:
    """Return a selection of the questions, the same on every machine.

    Args:
        questions: Their order matters only if `seed` is None.
        split: Keep the questions of this split; None keeps all.
        limit: Maximum number, taken from the front; at least 1.
        seed: Of a shuffle before the limit. The order depends only on seed and ids, so a smaller limit gives a prefix
            of a larger one. None keeps the order of `questions`.

    Raises:
        UserError: No question has that split, or the limit is below 1.
    """
    chosen = list(questions)
    if split is not None:
        splits = sorted({question.split or "(none)" for question in chosen})
        chosen = [question for question in chosen if question.split == split]
        if not chosen:
            raise UserError(f"No question has the split {split!r}. The file has: {', '.join(splits) or 'no question'}.")
    if limit is not None and limit < 1:
        raise UserError(f"The limit must be at least 1, got {limit}.")
    if seed is not None:
        chosen.sort(key=lambda question: (hashlib.sha256(f"{seed}:{question.id}".encode()).digest(), question.id))
    return chosen[:limit]


def split_hash(questions: Sequence[Question]) -> str:
    """Return the hexadecimal SHA-256 of the ids in their order, which identifies a selection of questions."""
    return hashlib.sha256(ujson.dumps([question.id for question in questions]).encode()).hexdigest()
