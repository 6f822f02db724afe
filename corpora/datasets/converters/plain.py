"""A corpus without questions: JSON with `title` and `text`, as published by HippoRAG and others."""

from collections.abc import Mapping
from typing import Any

from corpora.datasets.schema import Item, Schema
from corpora.paragraphs import paragraph
from corpora.passages import PassageRecord


def read_plain(record: Mapping[str, Any], _split: str | None) -> Item:
    """Convert one passage; its original `id` is kept as `source_id`, other keys unchanged."""
    base = paragraph(record["title"], record["text"])
    renamed = {"id": "source_id"}
    kept = {renamed.get(key, key): value for key, value in record.items() if key not in ("title", "text")}
    return Item(None, [PassageRecord(**{**kept, "id": base.id, "title": base.title, "text": base.text})])


SCHEMAS = {"title-text": Schema(("title", "text"), read_plain, questions=False)}
