"""Which questions are held out for evaluation, for a data set that has only a train file."""

from collections.abc import Iterable

from corpora.questions import drawn
from signatures.common.errors import UserError

HELD_BACK = {"2wikimultihopqa": 200, "musique": 30}
"""Data set -> number of questions held back of `2wiki_train.json` and `musique_ans_train_100.jsonl`."""


def held_back(ids: Iterable[str], count: int) -> set[str]:
    """Return the `count` ids with the smallest SHA-256, so that the choice depends on the ids alone.

    Args:
        ids: The ids of all questions of the set, in any order; repeats count once.
        count: How many to hold back.

    Raises:
        UserError: There are fewer ids than `count`, or `count` is negative.
    """
    distinct = set(ids)
    if not 0 <= count <= len(distinct):
        raise UserError(f"{count} of {len(distinct)} questions cannot be held back: choose 0 to {len(distinct)}.")
    return set(drawn(distinct, count, str)) if count else set()
