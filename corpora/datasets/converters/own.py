"""Your own questions: JSON lines, a JSON array or a table, with any gold that is available."""

from collections.abc import Mapping
from typing import Any

from corpora.datasets.converters.answers_only import ANSWERS, gold_answers
from corpora.datasets.schema import Item, Schema, text_id, unique
from corpora.paragraphs import paragraph
from corpora.questions import Question

_READ = ("id", "question", "passages", "split", *ANSWERS)


def read_own(record: Mapping[str, Any], split: str | None) -> Item:
    """Convert one question: `question`, and optionally `id`, `answers` (one or a list), `split` and `passages`.

    A passage is `{"title", "text", "gold"}`; `gold` says whether it is needed for the answer. All other keys are kept,
    with the meaning that those of `questions.jsonl` (`gold_ids`, `type`, ...) have there.
    """
    entries = record.get("passages") or []
    passages = [paragraph(entry.get("title") or "", entry["text"]) for entry in entries]
    kept = {key: value for key, value in record.items() if key not in _READ and value not in (None, "")}
    if entries:
        marked = zip(passages, entries, strict=True)
        kept["gold_ids"] = unique(passage.id for passage, entry in marked if entry.get("gold"))
        kept["context_ids"] = unique(passage.id for passage in passages)
    own_id = record.get("id")
    question = Question(
        id=text_id(record["question"]) if own_id in (None, "") else str(own_id),
        question=record["question"],
        answers=gold_answers(record),
        split=split or record.get("split") or None,
        **kept,
    )
    return Item(question, passages, has_id=own_id not in (None, ""))


SCHEMAS = {
    "with passages": Schema(("question", "passages"), read_own),
    "questions": Schema(("question",), read_own, without=("passages",), passages=False),
}
