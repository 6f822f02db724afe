"""HotpotQA: the official JSON files, and their shape on the hub.

Yang et al., "HotpotQA: A Dataset for Diverse, Explainable Multi-hop Question Answering", EMNLP 2018.
https://hotpotqa.github.io
"""

from collections.abc import Mapping, Sequence
from typing import Any

import ujson

from corpora.datasets.converters.ircot import IRCOT
from corpora.datasets.schema import Item, Schema, TitledGold, extras, unique
from corpora.paragraphs import paragraph
from corpora.passages import PassageRecord
from corpora.questions import Question


def context_passages(context: Any) -> list[PassageRecord]:
    """Return the paragraphs of a `context` in any of its published shapes.

    These are `[title, sentences]` pairs (official), one dict of parallel lists (hub), a list of dicts with `content`
    or `sentences` (2WikiMultihopQA on the hub), and each of them as a JSON text.
    """
    value = ujson.loads(context) if isinstance(context, str) else context
    if isinstance(value, Mapping):
        pairs = list(zip(value["title"], value["sentences"], strict=True))
    else:
        pairs = [_pair(entry, ("content", "sentences")) for entry in value]
    return [paragraph(title, sentences) for title, sentences in pairs]


def gold_facts(facts: Any) -> list[tuple[str, int]]:
    """Return `(title, sentence number)` of `supporting_facts` in any of its published shapes; empty if absent."""
    value = ujson.loads(facts) if isinstance(facts, str) else facts or []
    if isinstance(value, Mapping):
        return [(title, int(number)) for title, number in zip(value["title"], value["sent_id"], strict=True)]
    return [(title, int(number)) for title, number in (_pair(entry, ("sent_id",)) for entry in value)]


def read_hotpotqa(record: Mapping[str, Any], split: str | None) -> Item:
    """Convert one question; test sets have neither answers nor supporting facts."""
    passages = context_passages(record["context"])
    gold = TitledGold(passages, gold_facts(record.get("supporting_facts")))
    return Item(question_of(record, split, gold, passages, **extras(record, "level")), passages, gold.notes)


def question_of(
    record: Mapping[str, Any], split: str | None, gold: TitledGold, passages: Sequence[PassageRecord], **more: Any
) -> Question:
    """Return the question of a record, with more fields."""
    answer = record.get("answer")
    return Question(
        id=record["_id"] if "_id" in record else record["id"],
        question=record["question"],
        answers=[answer] if answer else [],
        gold_ids=gold.ids,
        gold_sentences=gold.sentences,
        context_ids=unique(passage.id for passage in passages),
        type=record.get("type") or None,
        split=split,
        **more,
    )


def _pair(entry: Any, second: tuple[str, ...]) -> tuple[Any, Any]:
    """Return the title and the second value of a pair or a dict."""
    if isinstance(entry, Mapping):
        return entry["title"], entry[next((name for name in second if name in entry), second[0])]
    title, value = entry
    return title, value


SCHEMAS = {
    "official": Schema(("_id", "question", "context"), read_hotpotqa, without=("evidences",)),
    "hub": Schema(("id", "question", "context"), read_hotpotqa, without=("evidences",)),
    "ircot": IRCOT,
}
