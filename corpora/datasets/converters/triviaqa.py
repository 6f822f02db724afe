"""TriviaQA: the official JSON and the hub's shape, with all aliases; FlashRAG's JSON lines.

Joshi et al., "TriviaQA: A Large Scale Distantly Supervised Challenge Dataset for Reading Comprehension", ACL 2017.
https://nlp.cs.washington.edu/triviaqa/ (the questions come without a stated licence)
"""

from collections.abc import Mapping
from typing import Any

from corpora.datasets.converters.answers_only import FLASHRAG
from corpora.datasets.schema import Item, Schema, texts
from corpora.questions import Question

INSIDE = ("Data",)


def read_triviaqa(record: Mapping[str, Any], split: str | None) -> Item:
    """Convert one question: the main answer first, then its aliases and the answers by annotators.

    Normalised aliases are used only if the original aliases are missing. Test sets have no answer.
    """
    answer = {key.lower(): value for key, value in (_either(record, "Answer") or {}).items()}
    aliases = answer.get("aliases") or answer.get("normalizedaliases") or answer.get("normalized_aliases") or []
    human = answer.get("humananswers") or []
    value = answer.get("value")
    question = Question(
        id=_either(record, "QuestionId", "question_id"),
        question=_either(record, "Question"),
        # The hub writes "<unk>" for the missing answers of the test set.
        answers=[] if value == "<unk>" else texts([value, *aliases, *human]),
        split=split,
    )
    return Item(question)


def _either(record: Mapping[str, Any], official: str, hub: str | None = None) -> Any:
    """Return the value of the key with its official name or the hub's."""
    return record[official] if official in record else record.get(hub or official.lower())


SCHEMAS = {
    "official": Schema(("QuestionId", "Question"), read_triviaqa, passages=False),
    "hub": Schema(("question_id", "question"), read_triviaqa, passages=False),
    "flashrag": FLASHRAG,
}
