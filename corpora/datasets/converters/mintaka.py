"""Mintaka: the official JSON, and its shape on the hub; English texts.

Sen et al., "Mintaka: A Complex, Natural, and Multilingual Dataset for End-to-End Question Answering", COLING 2022.
https://github.com/amazon-science/mintaka (CC BY 4.0)
"""

from collections.abc import Mapping
from typing import Any

from corpora.datasets.schema import Item, Schema, extras, texts
from corpora.questions import Question

_BOOLEANS = {"true": "yes", "yes": "yes", "false": "no", "no": "no"}


def read_mintaka(record: Mapping[str, Any], split: str | None) -> Item:
    """Convert one question.

    The first answer is the official evaluation's text form: the labels of all entities joined by spaces, else the
    value, with "yes" and "no" for booleans. The annotator's own wording (`mention`) is accepted as well. The answer of
    a count question is the number; the counted entities are in `entities` only.
    """
    answer = record["answer"] or {}
    kind, values = answer.get("answerType"), answer.get("answer") or []
    entities = [(value["name"], _label(value)) for value in values] if kind == "entity" else []
    counted = answer.get("answerNum") if record.get("complexityType") == "count" else None
    if counted is not None:
        answers = texts(_number(counted))
    elif entities:
        answers = texts([" ".join(label for _, label in entities), answer.get("mention")])
    elif kind == "boolean":
        answers = [_BOOLEANS[str(value).lower()] for value in values[:1]]
    else:
        answers = texts([*(_number(value) for value in values[:1]), answer.get("mention")])
    question = Question(
        id=record["id"],
        question=record["question"],
        answers=answers,
        type=record.get("complexityType") or None,
        split=split,
        **extras(record, "category"),
        **({"answer_type": kind} if kind else {}),
        **({"entities": [list(entity) for entity in entities]} if entities else {}),
    )
    return Item(question)


def read_hub(record: Mapping[str, Any], split: str | None) -> Item:
    """Convert one row of the hub, where the answer is one text."""
    text = str(record.get("answerText") or "").strip()
    bare = not record.get("answerEntity")
    question = Question(
        id=record["id"] if record.get("lang", "en") == "en" else f"{record['id']}-{record['lang']}",
        question=record["question"],
        answers=texts(_BOOLEANS.get(text.lower(), text) if bare else text),
        type=record.get("complexityType") or None,
        split=split,
        **extras(record, "category", "lang"),
    )
    return Item(question)


def _label(entity: Mapping[str, Any]) -> str:
    """Return an entity's English label, or its Wikidata id if it has none."""
    label = entity.get("label")
    text = label.get("en") if isinstance(label, Mapping) else label
    return text or entity["name"]


def _number(value: object) -> str:
    """Return a value as text, whole numbers without a decimal point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


SCHEMAS = {
    "official": Schema(("id", "question", "answer", "complexityType"), read_mintaka, passages=False),
    "hub": Schema(("id", "question", "answerText", "complexityType"), read_hub, passages=False),
}
