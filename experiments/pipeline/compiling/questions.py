"""Training and validation questions of a compilation: disjoint, and none of them for testing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from signatures.common.errors import UserError
from signatures.text_words import same_words

if TYPE_CHECKING:
    from corpora.questions import Question


@dataclass(frozen=True)
class Divided:
    """Questions to compile on.

    Args:
        train: To learn from.
        val: To compare candidates on, or to score the result on; may be empty.
        notes: What a reader of the result has to know about them.
    """

    train: "list[Question]"
    val: "list[Question]"
    notes: tuple[str, ...] = ()


def divided(training: "Sequence[Question]", validation: "Sequence[Question]", *, optimizer: str, seed: int) -> Divided:
    """Return the questions of a compilation.

    Validation questions that are training questions, too, by id or by their words, are left out. Without validation
    questions, a part of the training questions is held out if the optimizer compares candidates.

    Raises:
        UserError: All validation questions are training questions, or there are too few questions to hold some out.
    """
    from optimizers.examples import hold_out
    from optimizers.teleprompters.catalog import get_optimizer

    if validation:
        ids = {question.id for question in training}
        texts = {same_words(question.question) for question in training}
        kept = [each for each in validation if each.id not in ids and same_words(each.question) not in texts]
        left_out = len(validation) - len(kept)
        if not kept:
            raise UserError(
                f"All {left_out} validation questions are training questions, too: name other questions, or a split of "
                "each."
            )
        note = f"{left_out} of {len(validation)} validation questions are training questions, too, and are left out."
        return Divided(list(training), kept, (note,) if left_out else ())
    if not get_optimizer(optimizer).compares:
        return Divided(list(training), [])
    train, held_out = hold_out(training, seed=seed)
    note = (
        f"{len(held_out)} of {len(training)} training questions are held out to compare candidates on; the scores on "
        "them choose the program, so that they are too good for a result."
    )
    return Divided(train, held_out, (note,))
