"""WebQuestions: the official JSON, the hub's shape and WebGLM's list of 400.

Berant et al., "Semantic Parsing on Freebase from Question-Answer Pairs", EMNLP 2013.
https://nlp.stanford.edu/software/sempre/ (CC BY 4.0)
"""

import re
from collections.abc import Mapping
from typing import Any

from corpora.datasets.converters.answers_only import FLASHRAG, QUESTION_ANSWER, QUESTION_ANSWERS, read_answers
from corpora.datasets.schema import Item, Schema, extras

# `(list (description "Two words") (description Word))`, in quotation marks if there are spaces.
_DESCRIPTION = re.compile(r'\(description (?:"((?:[^"\\]|\\.)*)"|([^()\s]+))\)')
_ESCAPED = re.compile(r"\\(.)")


def read_web_questions(record: Mapping[str, Any], split: str | None) -> Item:
    """Convert one question of the official files, whose answers are written as a Lisp list.

    Raises:
        ValueError: An element of the list is not a description.
    """
    answers = [
        _ESCAPED.sub(r"\1", match[1]) if match[1] is not None else match[2]
        for match in _DESCRIPTION.finditer(record["targetValue"])
    ]
    if len(answers) != record["targetValue"].count("(description "):
        raise ValueError(f"targetValue cannot be parsed: {record['targetValue']}")
    return read_answers({"question": record["utterance"], "answers": answers, **extras(record, "url")}, split)


SCHEMAS = {
    "official": Schema(("utterance", "targetValue"), read_web_questions, passages=False),
    "webglm": QUESTION_ANSWER,
    "hub": QUESTION_ANSWERS,
    "flashrag": FLASHRAG,
}
