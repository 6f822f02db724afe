"""Votes on short answers: what is one, which of them are the same, and which one wins. Pure functions."""

import string
from collections.abc import Sequence
from typing import NamedTuple

from signatures.refusals import refuses
from signatures.text import normalize_answer
from signatures.text_words import same_words

_NON_ANSWERS = {"", "unknown", "未知", "不知道", "不详"}
_MARKS = string.punctuation + string.whitespace + "。，、；：！？…—·“”‘’「」『』《》【】（）"


def is_answer(answer: str) -> bool:
    """Return whether a short answer is neither empty nor "unknown", the word that prompts ask for instead of one.

    Chinese words for it (未知) are no answer either.
    Articles count as words: "A" is a blood group, and normalisation would leave an empty text.
    """
    return answer.strip(_MARKS).casefold() not in _NON_ANSWERS


class Majority(NamedTuple):
    """The result of a vote.

    Args:
        place: Position of the earliest vote for the winner, from 0.
        agreement: Share of all, those without a vote included, that voted for it.
    """

    place: int
    agreement: float


def majority(keys: Sequence[str]) -> Majority:
    """Return the most frequent of the keys; of equally frequent ones that whose first vote is the earliest.

    Args:
        keys: What each votes for, at least one; an empty key is no vote, unless all are empty.
    """
    votes = [key for key in keys if key] or keys
    winner = max(votes, key=votes.count)  # of equal counts the first
    return Majority(keys.index(winner), keys.count(winner) / len(keys))


def answer_key(answer: str) -> str:
    """Return an answer as it is compared in a vote, by its words in any script; empty for what is no answer.

    No answer is an empty text, "unknown" (`is_answer`) and a refusal.
    """
    if not is_answer(answer) or refuses(answer):
        return ""
    return same_words(answer) or answer.strip().casefold()  # "A" is an article, and a blood group


def normalized_key(answer: str) -> str:
    """Return an answer as it is compared in the vote of an ensemble, normalised; empty for what is no answer."""
    if not is_answer(answer):
        return ""
    return normalize_answer(answer) or answer.casefold()  # "A" is an article, and a blood group
