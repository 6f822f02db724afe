"""The Wikipedia corpora that the papers retrieve from: DPR's passages of 100 words, and HotpotQA's abstracts of 2017.

Karpukhin et al., "Dense Passage Retrieval for Open-Domain Question Answering", EMNLP 2020: 21,015,324 passages of the
dump of 20 December 2018. https://github.com/facebookresearch/DPR
Yang et al., "HotpotQA", EMNLP 2018: the first paragraphs of all articles of 1 October 2017.
https://hotpotqa.github.io/wiki-readme.html
"""

from collections.abc import Mapping
from typing import Any

from corpora.datasets.schema import Item, Schema
from corpora.paragraphs import paragraph
from corpora.passages import PassageRecord


def read_dpr(record: Mapping[str, Any], _split: str | None) -> Item:
    """Convert one row with its original id, which DPR's question files and published rankings refer to."""
    return Item(None, [PassageRecord(id=str(record["id"]), title=record["title"], text=record["text"])])


def read_abstract(record: Mapping[str, Any], _split: str | None) -> Item:
    """Convert one abstract with its sentences; its id is that of the same paragraph in HotpotQA's questions.

    Links and character offsets are omitted.
    """
    base = paragraph(record["title"], record["text"])
    return Item(None, [base.model_copy(update={"source_id": str(record["id"])})])


DPR_SCHEMAS = {"official": Schema(("id", "text", "title"), read_dpr, questions=False, distinct=True)}
ABSTRACT_SCHEMAS = {"official": Schema(("id", "title", "text"), read_abstract, questions=False, distinct=True)}
