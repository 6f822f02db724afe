"""Bamboogle: 125 two-hop questions that a search engine answers wrongly; the authors' table and its copies.

Press et al., "Measuring and Narrowing the Compositionality Gap in Language Models", Findings of EMNLP 2023.
https://github.com/ofirpress/self-ask
"""

from collections.abc import Mapping
from typing import Any

from corpora.datasets.converters.answers_only import FLASHRAG, QUESTION_ANSWER, read_answers
from corpora.datasets.schema import Item, Schema


def read_bamboogle(record: Mapping[str, Any], split: str | None) -> Item:
    """Convert one row with the columns `Question` and `Answer`."""
    return read_answers({"question": record["Question"], "answer": record["Answer"]}, split)


SCHEMAS = {
    "official": Schema(("Question", "Answer"), read_bamboogle, passages=False),
    "lines": QUESTION_ANSWER,
    "flashrag": FLASHRAG,
}
