"""The questions of a study: those of its trials, and those that candidates are made from."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from experiments.pipeline.tuning.config import TuneConfig
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from corpora.questions import Question

_TRAIN_SHARE = 3  # one of so many questions makes candidates, if no others are given


def split_questions(
    trainset: "Sequence[Question]", questions: "Sequence[Question]", config: TuneConfig
) -> "tuple[list[Question], list[Question]]":
    """Return training questions and those of the trials, each in a random order that depends only on the seed.

    Raises:
        UserError: A question is of a test split, two have one id, or one is in both sets.
    """
    from corpora.questions import select
    from optimizers.examples import to_examples
    from optimizers.teleprompters.task import Task, check_splits

    seen: set[str] = set()
    for question in questions:
        if question.id in seen:
            raise UserError(f"Two questions have the id {question.id!r}. Give every question a different id.")
        seen.add(question.id)
    ordered = select(questions, seed=config.seed)
    train = select(trainset, seed=config.seed) if trainset else []
    if config.candidates.trained and not train:
        if len(ordered) < _TRAIN_SHARE:
            raise UserError(f"{len(ordered)} questions are too few to make demonstrations from a part of them.")
        size = len(ordered) // _TRAIN_SHARE
        train, ordered = ordered[:size], ordered[size:]
    check_splits(Task(trainset=to_examples(train), valset=to_examples(ordered), score=config.metric))
    return train, ordered
