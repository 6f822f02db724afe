"""Questions with nothing but their accepted answers: the shapes that several open-domain benchmarks share.

`question`/`answer` is NQ-open's own shape and that of WebGLM's test lists; `golden_answers` is FlashRAG's.
https://github.com/THUDM/WebGLM, https://github.com/RUC-NLPIR/FlashRAG
"""

from collections.abc import Mapping
from typing import Any

from corpora.datasets.schema import Item, Schema, extras, text_id, texts
from corpora.questions import Question

_ANSWERS = ("answers", "answer", "golden_answers")


def read_answers(record: Mapping[str, Any], split: str | None) -> Item:
    """Convert one question; without an id of its own it gets one from its text."""
    name = record.get("id")
    question = Question(
        id=text_id(record["question"]) if name is None else str(name),
        question=record["question"],
        answers=texts(next((record[key] for key in _ANSWERS if key in record), None)),
        split=split,
        **extras(record, "url"),
    )
    return Item(question, named=name is not None)


FLASHRAG = Schema(("id", "question", "golden_answers"), read_answers, passages=False)
QUESTION_ANSWER = Schema(("question", "answer"), read_answers, passages=False)
QUESTION_ANSWERS = Schema(("question", "answers"), read_answers, without=("ctxs",), passages=False)
