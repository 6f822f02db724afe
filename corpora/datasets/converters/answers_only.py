"""Questions with only their accepted answers: shapes that several open-domain benchmarks share.

`question`/`answer` is the shape of NQ-open and of WebGLM's test lists; `golden_answers` is FlashRAG's.
https://github.com/THUDM/WebGLM, https://github.com/RUC-NLPIR/FlashRAG
"""

from collections.abc import Mapping
from typing import Any

from corpora.datasets.schema import Item, Schema, extras, text_id, texts
from corpora.questions import Question

ANSWERS = ("answers", "answer", "golden_answers")


def read_answers(record: Mapping[str, Any], split: str | None) -> Item:
    """Convert one question; if it has no id, one is made from its text."""
    own_id = record.get("id")
    question = Question(
        id=text_id(record["question"]) if own_id is None else str(own_id),
        question=record["question"],
        answers=gold_answers(record),
        split=split,
        **extras(record, "url"),
    )
    return Item(question, has_id=own_id is not None)


def gold_answers(record: Mapping[str, Any]) -> list[str]:
    """Return the accepted answers of a record, under the first key of `ANSWERS` that it has."""
    return texts(next((record[key] for key in ANSWERS if key in record), None))


FLASHRAG = Schema(("id", "question", "golden_answers"), read_answers, passages=False)
QUESTION_ANSWER = Schema(("question", "answer"), read_answers, passages=False)
QUESTION_ANSWERS = Schema(("question", "answers"), read_answers, without=("ctxs",), passages=False)
