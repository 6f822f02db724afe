"""`questions.jsonl`: questions with their gold, one per line; only `id` and `question` are required."""

import hashlib
import heapq
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import ujson
from pydantic import BaseModel, ConfigDict, Field

from corpora.compressed import read_held
from corpora.jsonl import bad_line, read_records, write_records
from corpora.passages import NotBlank, unique_ids
from signatures.common.errors import UserError
from signatures.common.files import sha256_text
from signatures.text_words import words_or_text

Item = TypeVar("Item")

_RULE = (
    'Every line needs "id" (a unique string) and "question" (a string that is not empty); "answers" is a list of '
    'strings, e.g. ["42"].'
)


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


def ids_by_words(questions: Iterable[Question]) -> dict[str, list[str]]:
    """Return the ids of the questions of the same words together, by these words, in the order of the questions."""
    found: dict[str, list[str]] = {}
    for question in questions:
        found.setdefault(words_or_text(question.question), []).append(question.id)
    return found


def drawn(items: Iterable[Item], count: int | None, id_of: Callable[[Item], str]) -> list[Item]:
    """Return the `count` items whose ids have the smallest SHA-256, in the order in which they are given.

    So the choice depends on the ids alone, and fewer items are a part of more. No more than `count` are held.

    Args:
        items: To draw from.
        count: How many, at least 1; all if None or if there are no more.
        id_of: Returns the id of an item.

    Raises:
        UserError: `count` is below 1.
    """
    if count is None:
        return list(items)
    if count < 1:
        raise UserError(f"The limit must be at least 1, got {count}.")
    smallest = heapq.nsmallest(count, enumerate(items), key=lambda place: sha256_text(id_of(place[1])))
    return [item for _, item in sorted(smallest, key=lambda place: place[0])]


def select(
    questions: Iterable[Question], *, split: str | None = None, limit: int | None = None, seed: int | None = None
) -> list[Question]:
    """Return a selection of the questions, the same on every machine.

    Args:
        questions: To select from; those selected keep their order if `seed` is None.
        split: Keep the questions of this split; None keeps all.
        limit: Maximum number, at least 1. They are drawn by a hash of their ids, never the first of a file, which is
            often sorted; a smaller limit gives a part of a larger one.
        seed: Of a shuffle; the hash that draws contains it. The order depends only on seed and ids, so a smaller limit
            gives a prefix of a larger one. None keeps the order of `questions`.

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
    if seed is None:
        return drawn(chosen, limit, lambda question: question.id)
    chosen.sort(key=lambda question: (hashlib.sha256(f"{seed}:{question.id}".encode()).digest(), question.id))
    return chosen[:limit]


def split_hash(questions: Sequence[Question]) -> str:
    """Return the hexadecimal SHA-256 of the ids in their order, which identifies a selection of questions."""
    return hashlib.sha256(ujson.dumps([question.id for question in questions]).encode()).hexdigest()
