"""Bamboogle: 125 two-hop questions that a search engine answers wrongly; the authors' table and its copies.

Press et al., "Measuring and Narrowing the Compositionality Gap in Language Models", Findings of EMNLP 2023.
https://github.com/ofirpress/self-ask
"""

from collections.abc import Mapping
from typing import Any

from corpora.datasets.converters.answers_only import FLASHRAG, QUESTION_ANSWER
from corpora.datasets.schema import Item, Schema, text_id, texts
from corpora.questions import Question


def read_bamboogle(record: Mapping[str, Any], split: str | None) -> Item:
    """Convert one row with the columns `Question` and `Answer`."""
    question = Question(
        id=text_id(record["Question"]), question=record["Question"], answers=texts(record["Answer"]), split=split
    )
    return Item(question, has_id=False)


SCHEMAS = {
    "official": Schema(("Question", "Answer"), read_bamboogle, passages=False),
    "lines": QUESTION_ANSWER,
    "flashrag": FLASHRAG,
}
