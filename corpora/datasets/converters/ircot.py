"""The processed shape in which IRCoT publishes HotpotQA, 2WikiMultihopQA and MuSiQue: gold by paragraph only.

Trivedi et al., "Interleaving Retrieval with Chain-of-Thought Reasoning for Knowledge-Intensive Multi-Step
Questions", ACL 2023. https://github.com/StonyBrookNLP/ircot
"""

import re
from collections.abc import Mapping
from typing import Any

from corpora.datasets.schema import Item, Schema, extras, unique
from corpora.kinds import estimated_kind
from corpora.paragraphs import paragraph
from corpora.questions import Question

_MUSIQUE_ID = re.compile(r"(\dhop\d?)__")


def read_ircot(record: Mapping[str, Any], split: str | None) -> Item:
    """Convert one question; without sentences in this shape there are no gold sentences.

    A question without a type gets an estimated `kind`.
    """
    contexts = record["contexts"]
    passages = [paragraph(entry["title"], entry["paragraph_text"]) for entry in contexts]
    supporting = [bool(entry.get("is_supporting")) for entry in contexts]
    answers = unique(answer for entry in record.get("answers_objects") or [] for answer in _answers(entry))
    type = record.get("type") or _hops(record["question_id"])
    gold_titles = [passage.title for passage, gold in zip(passages, supporting, strict=True) if gold]
    kind = {} if type else {"kind": estimated_kind(record["question_text"], answers, gold_titles)}
    question = Question(
        id=record["question_id"],
        question=record["question_text"],
        answers=answers,
        gold_ids=unique(passage.id for passage, gold in zip(passages, supporting, strict=True) if gold),
        context_ids=unique(passage.id for passage in passages),
        type=type,
        split=split,
        **extras(record, "level", "reasoning_steps"),
        **kind,
    )
    return Item(question, passages)


def _hops(id: str) -> str | None:
    """Return the type that an id of MuSiQue starts with, such as 2hop; None for other ids."""
    found = _MUSIQUE_ID.match(id)
    return found[1] if found else None


def _answers(entry: Mapping[str, Any]) -> list[str]:
    """Return the answers of an object in the format of DROP: spans, else a number, else a date `day month year`."""
    spans = [span for span in entry.get("spans") or [] if span]
    date = entry.get("date") or {}
    written = " ".join(str(date[part]) for part in ("day", "month", "year") if date.get(part))
    number = entry.get("number")
    return spans or ([str(number)] if number not in (None, "") else []) or ([written] if written else [])


IRCOT = Schema(("question_id", "question_text", "contexts"), read_ircot)
