"""HalluQA: Chinese questions designed to provoke hallucination, with correct and wrong answers.

Cheng et al., "Evaluating Hallucinations in Chinese Large Language Models", 2023. https://arxiv.org/abs/2310.03368
https://github.com/OpenMOSS/HalluQA (Apache-2.0)
"""

from collections.abc import Mapping
from typing import Any

from corpora.datasets.schema import Item, Schema, texts
from corpora.questions import Question


def read_halluqa(record: Mapping[str, Any], split: str | None) -> Item:
    """Convert one question; its category ("Knowledge", "Misleading", "Misleading-hard") is its type.

    The correct answers are full sentences: references for a judge, not strings for exact match.
    """
    kept = {"class": "Class", "pattern": "Question Pattern", "source": "Source"}
    question = Question(
        id=f"halluqa-{record['question_id']}",
        question=record["Question"],
        answers=texts([record.get(f"Best Answer{number}") for number in range(1, 5)]),
        type=record.get("Category") or None,
        split=split,
        wrong_answers=texts([record.get(f"Wrong_Answer{number}") for number in range(1, 5)]),
        **{name: record[key] for name, key in kept.items() if record.get(key)},
    )
    return Item(question)


SCHEMAS = {"official": Schema(("question_id", "Question", "Best Answer1"), read_halluqa, passages=False)}
