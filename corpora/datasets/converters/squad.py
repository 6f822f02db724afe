"""SQuAD 1.1 and 2.0: questions on the paragraphs of Wikipedia articles, each answered by a span of one paragraph.

Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine Comprehension of Text", EMNLP 2016.
https://rajpurkar.github.io/SQuAD-explorer
"""

from collections.abc import Iterator, Mapping
from typing import Any

from corpora.datasets.schema import Item, Schema, texts
from corpora.paragraphs import paragraph
from corpora.questions import Question

INSIDE = ("data",)


def questions_of(article: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a record for each question of an article: title and paragraph in addition to the question's own fields."""
    title = article["title"].replace("_", " ")
    for part in article["paragraphs"]:
        for asked in part["qas"]:
            yield {"title": title, "context": part["context"], **asked}


def read_squad(record: Mapping[str, Any], split: str | None) -> Item:
    """Convert one question; one that its paragraph does not answer (SQuAD 2.0) has neither answers nor gold."""
    passage = paragraph(record["title"], record["context"])
    answers = texts([answer["text"] for answer in record["answers"]])
    question = Question(
        id=record["id"],
        question=record["question"].strip(),
        answers=answers,
        gold_ids=[passage.id] if answers else [],
        context_ids=[passage.id],
        split=split,
    )
    return Item(question, [passage])


SCHEMAS = {"official": Schema(("title", "paragraphs"), read_squad, parts=questions_of)}
