"""HoVer: claims that two to four Wikipedia articles support or not; the official JSON files and the hub's shape.

Jiang et al., "HoVer: A Dataset for Many-Hop Fact Extraction And Claim Verification", Findings of EMNLP 2020.
https://hover-nlp.github.io
"""

from collections.abc import Mapping
from typing import Any

from corpora.datasets.converters.strategyqa import yes_or_no
from corpora.datasets.schema import Item, Schema, extras, unique
from corpora.questions import Question

# The hub has numbers for the labels, and -1 where a test set has none.
_SUPPORTED = {"SUPPORTED": True, "NOT_SUPPORTED": False, 1: True, 0: False, -1: None, None: None}


def read_hover(record: Mapping[str, Any], split: str | None) -> Item:
    """Convert one claim: it is the question, and "yes" the answer if it is supported, else "no".

    Gold are titles of articles, since the files have no passages: `verihop data gold` finds them in a corpus. Test sets
    have neither label nor gold.

    Raises:
        ValueError: The label is unknown, or a title is no text.
    """
    label = record.get("label")
    if label not in _SUPPORTED:
        raise ValueError(f"label {label!r} is not one of SUPPORTED and NOT_SUPPORTED")
    facts = [_fact(each) for each in record.get("supporting_facts") or []]
    hops = int(record.get("num_hops") or -1)
    question = Question(
        id=record["uid"],
        question=record["claim"],
        answers=yes_or_no(_SUPPORTED[label]),
        type=f"{hops}hop" if hops > 0 else None,
        split=split,
        **({"gold_titles": unique(title for title, _ in facts), "supporting_facts": facts} if facts else {}),
        **({} if record.get("hpqa_id") == "None" else extras(record, "hpqa_id")),
    )
    return Item(question)


def _fact(fact: Any) -> tuple[str, int]:
    """Return title and sentence number of a pair, or of the hub's dict."""
    title, number = (fact["key"], fact["value"]) if isinstance(fact, Mapping) else fact
    if not isinstance(title, str) or not title.strip():
        raise ValueError(f"title {title!r} in supporting_facts is not text")
    return title, int(number)


SCHEMAS = {"official": Schema(("uid", "claim"), read_hover, passages=False)}
