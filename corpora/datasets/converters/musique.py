"""MuSiQue-Ans and MuSiQue-Full: the official JSON lines.

Trivedi et al., "MuSiQue: Multihop Questions via Single-hop Question Composition", TACL 2022.
https://github.com/StonyBrookNLP/musique
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from corpora.datasets.converters.ircot import IRCOT
from corpora.datasets.schema import Item, Schema, extras, unique
from corpora.paragraphs import paragraph
from corpora.questions import Question, SubQuestion

_REFERENCE = re.compile(r"#(\d+)")


def read_musique(record: Mapping[str, Any], split: str | None) -> Item:
    """Convert one question.

    MuSiQue-Full contains each question twice under one id, once with a paragraph missing: that one gets
    `-unanswerable` appended to its id and keeps `answerable: false`.
    """
    paragraphs = record["paragraphs"]
    passages = [paragraph(entry["title"], entry["paragraph_text"]) for entry in paragraphs]
    by_index = {entry["idx"]: passage.id for entry, passage in zip(paragraphs, passages, strict=True)}
    hops, notes = _sub_questions(record.get("question_decomposition") or [], by_index)
    answerable = record.get("answerable", True)
    answer = record.get("answer")
    question = Question(
        id=record["id"] if answerable else f"{record['id']}-unanswerable",
        question=record["question"],
        answers=unique([answer, *(record.get("answer_aliases") or [])]) if answer else [],
        gold_ids=unique(by_index[entry["idx"]] for entry in paragraphs if entry.get("is_supporting")),
        context_ids=unique(passage.id for passage in passages),
        **_paragraph_ids([passage.id for passage in passages]),
        sub_questions=hops,
        type=record["id"].split("__")[0],
        split=split,
        **extras(record, "answerable"),
    )
    return Item(question, passages, notes)


def _paragraph_ids(ids: list[str]) -> dict[str, list[str]]:
    """Return the ids of all paragraphs if one occurs twice, because predictions number the paragraphs."""
    return {"paragraph_ids": ids} if len(set(ids)) < len(ids) else {}


def _sub_questions(
    steps: Sequence[Mapping[str, Any]], by_index: Mapping[int, str]
) -> tuple[list[SubQuestion], Counter[str]]:
    """Fill `#n` with the answer of hop n, and keep the original wording as `template`."""
    answers = [step.get("answer") for step in steps]
    hops: list[SubQuestion] = []
    notes: Counter[str] = Counter()
    for place, step in enumerate(steps):
        text = step["question"]
        filled = _fill(text, answers[:place])
        support = step.get("paragraph_support_idx")
        ids = [by_index[support]] if support is not None else []
        notes["sub_questions_without_gold"] += not ids
        template = {"template": text} if filled != text else {}
        hops.append(SubQuestion(question=filled, answer=answers[place], gold_ids=ids, **template))
    return hops, notes


def _fill(text: str, earlier: Sequence[str | None]) -> str:
    """Replace `#n` by the n-th earlier answer; a number that is not an earlier hop ("the #1 hit") is kept."""

    def answer(match: re.Match[str]) -> str:
        place = int(match[1]) - 1
        text = earlier[place] if 0 <= place < len(earlier) else None
        return match[0] if text is None else text

    filled = _REFERENCE.sub(answer, text)
    return filled if filled == text else re.sub(r"\s+(?=[?,.)'])", "", filled)


SCHEMAS = {"official": Schema(("id", "question", "paragraphs"), read_musique), "ircot": IRCOT}
