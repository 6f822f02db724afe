"""Divides questions into train, dev and test questions, the same on every machine."""

import math
import warnings
from collections.abc import Sequence

from corpora.questions import Question, ids_by_words, select
from signatures.common.errors import UserError, UserNotice
from signatures.common.files import sha256_text

TRAIN, DEV, TEST = "train", "dev", "test"


def divide(
    questions: Sequence[Question], *, dev: float = 0, test: float = 0, split: str | None = None
) -> list[Question]:
    """Return the questions in their order with a `split`: test questions are drawn first, then dev, the rest is train.

    They are drawn by a hash of their words, not of the ids by which `select` draws; questions of the same words are in
    the same split, so that a part can lack as many as it has no room for, which a notice says. Parts of a split that is
    divided have its name in front ("train-dev"), so that none passes for an official split.

    Args:
        questions: None has a split, unless `split` names those that are divided.
        dev, test: Number of questions, or below 1 their share.
        split: Divide the questions of this split; the others stay as they are.

    Raises:
        UserError: Questions have a split already, none has the split named, none is left for training, or others are of
            a split that this makes.
    """
    if split is None and (splits := [question.split for question in questions if question.split is not None]):
        raise UserError(
            f"{len(splits)} questions already have a split ({', '.join(sorted(set(splits)))}): name the one whose "
            "questions are divided (--split)."
        )
    chosen = select(questions, split=split)
    room = {TEST: _count(TEST, test, len(chosen)), DEV: _count(DEV, dev, len(chosen))}
    if sum(room.values()) >= len(chosen):
        raise UserError(
            f"{room[DEV]} dev and {room[TEST]} test questions leave none of {len(chosen)} for training: ask for fewer."
        )
    alike, split_of, prefix = ids_by_words(chosen), {}, "" if split is None else f"{split}-"
    for words in sorted(alike, key=sha256_text):
        part = next((name for name, left in room.items() if left >= len(alike[words])), TRAIN)
        if part != TRAIN:
            room[part] -= len(alike[words])
        split_of.update(dict.fromkeys(alike[words], prefix + part))
    if taken := sorted({str(each.split) for each in questions if each.id not in split_of} & set(split_of.values())):
        raise UserError(f"Other questions already have the split {taken[0]!r}: divide a file without it.")
    if any(room.values()):
        warnings.warn(
            UserNotice(
                f"{room[DEV]} dev and {room[TEST]} test questions fewer than asked for: questions of equal words are "
                "in the same split, and those left do not fit."
            ),
            stacklevel=2,
        )
    return [each.model_copy(update={"split": split_of.get(each.id, each.split)}) for each in questions]


def _count(name: str, size: float, of: int) -> int:
    """Return a number of questions that is stated as such or as a share."""
    if not 0 <= size < math.inf or (size >= 1 and size != int(size)):
        raise UserError(f"The {name} questions must be a whole number, or a share below 1, got {size:g}.")
    number = round(size * of) if size < 1 else int(size)
    if size and not number:
        raise UserError(f"A share of {size:g} of {of} questions gives no {name} question: use a larger share, or 0.")
    return number
