"""TriviaQA: the official JSON and the hub's shape, with all aliases; FlashRAG's lines.

Joshi et al., "TriviaQA: A Large Scale Distantly Supervised Challenge Dataset for Reading Comprehension", ACL 2017.
https://nlp.cs.washington.edu/triviaqa/ (the questions come without a stated licence)
"""

from collections.abc import Mapping
from typing import Any

from corpora.datasets.answers_only import FLASHRAG
from corpora.datasets.schema import Item, Schema, texts
from corpora.questions import Question

INSIDE = ("Data",)


def read_triviaqa(record: Mapping[str, Any], split: str | None) -> Item:
    """Convert one question: the main answer first, then its aliases and people's answers.

    The normalised aliases are taken only where the aliases themselves are missing. Test sets have no answer.
    """
    answer = {key.lower(): value for key, value in (_either(record, "Answer") or {}).items()}
    aliases = answer.get("aliases") or answer.get("normalizedaliases") or answer.get("normalized_aliases") or []
    people = answer.get("humananswers") or []
    value = answer.get("value")
    question = Question(
        id=_either(record, "QuestionId", "question_id"),
        question=_either(record, "Question"),
        # The hub writes "<unk>" where the test set has no answer.
        answers=[] if value == "<unk>" else texts([value, *aliases, *people]),
        split=split,
    )
    return Item(question)


def _either(record: Mapping[str, Any], official: str, hub: str | None = None) -> Any:
    """Return a value under its official name or the hub's."""
    return record[official] if official in record else record.get(hub or official.lower())


SCHEMAS = {
    "official": Schema(("QuestionId", "Question"), read_triviaqa, passages=False),
    "hub": Schema(("question_id", "question"), read_triviaqa, passages=False),
    "flashrag": FLASHRAG,
}
