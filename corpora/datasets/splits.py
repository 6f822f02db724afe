"""Divides questions into train, dev and test questions, the same on every machine."""

from collections.abc import Sequence

from corpora.questions import Question
from signatures.common.errors import UserError
from signatures.common.files import sha256_text
from signatures.text_words import same_words

TRAIN, DEV, TEST = "train", "dev", "test"


def divide(
    questions: Sequence[Question], *, dev: float = 0, test: float = 0, split: str | None = None
) -> list[Question]:
    """Return the questions in their order with a `split`: test questions are drawn first, then dev, the rest is train.

    They are drawn by a hash of their words, not of the ids by which `select` draws; questions of the same words are in
    the same split, so that a part can lack as many as it has no room for.

    Args:
        questions: None has a split, unless `split` names those that are divided.
        dev, test: Number of questions, or below 1 their share.
        split: Divide the questions of this split; the others stay as they are.

    Raises:
        UserError: Questions have a split already, none has the split named, or none is left for training.
    """
    chosen = [question for question in questions if question.split == split]
    if split is None and len(chosen) < len(questions):
        had = sorted({question.split for question in questions if question.split is not None})
        raise UserError(
            f"{len(questions) - len(chosen)} questions have a split already ({', '.join(had)}): name the one whose "
            "questions are divided (--split)."
        )
    if not chosen:
        raise UserError(f"No question has the split {split!r}.")
    room = {TEST: _count(TEST, test, len(chosen)), DEV: _count(DEV, dev, len(chosen))}
    if sum(room.values()) >= len(chosen):
        raise UserError(
            f"{room[DEV]} dev and {room[TEST]} test questions leave none of {len(chosen)} to train on: name fewer."
        )
    alike: dict[str, list[str]] = {}
    for question in chosen:
        alike.setdefault(same_words(question.question) or question.question, []).append(question.id)
    split_of = {}
    for words in sorted(alike, key=sha256_text):
        part = next((name for name, left in room.items() if left >= len(alike[words])), TRAIN)
        if part != TRAIN:
            room[part] -= len(alike[words])
        split_of.update(dict.fromkeys(alike[words], part))
    return [each.model_copy(update={"split": split_of.get(each.id, each.split)}) for each in questions]


def _count(name: str, size: float, of: int) -> int:
    """Return a number of questions that is stated as such or as a share."""
    if size < 0 or (size >= 1 and size != int(size)):
        raise UserError(f"The {name} questions are a whole number, or a share below 1, got {size:g}.")
    return round(size * of) if size < 1 else int(size)
