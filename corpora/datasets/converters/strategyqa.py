"""StrategyQA: the official files with decompositions and evidence, their paragraphs, and the task in BIG-bench.

Geva et al., "Did Aristotle Use a Laptop? A Question Answering Benchmark with Implicit Reasoning Strategies", TACL
2021. https://github.com/eladsegal/strategyqa (MIT). BIG-bench's version has neither ids nor evidence:
https://github.com/google/BIG-bench/tree/main/bigbench/benchmark_tasks/strategyqa (Apache-2.0).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from corpora.datasets.schema import Item, Schema, extras, text_id, texts, unique
from corpora.passages import PassageRecord
from corpora.questions import Question, SubQuestion

_NO_PARAGRAPH = ("operation", "no_evidence")
# Where the records are in a file that is one object: BIG-bench's list, or paragraphs by their ids.
INSIDE = ("examples", "*")


def yes_or_no(answer: object) -> list[str]:
    """Return `["yes"]` or `["no"]` for a boolean, and no answer for None.

    Raises:
        ValueError: Neither a boolean nor None.
    """
    if answer is None:
        return []
    if not isinstance(answer, bool):
        raise ValueError(f"answer {answer!r} is neither true nor false")
    return ["yes" if answer else "no"]


def read_strategyqa(record: Mapping[str, Any], split: str | None) -> Item:
    """Convert one question; its facts become key facts.

    Three annotators named the paragraphs of every step. `gold_ids` are those of the first annotator who named any;
    `gold_alternatives` contains the set of each, for recall against the best annotator. Ids are those of the official
    paragraphs (`Title-number`). No step has an answer, so references such as `#1` are kept.
    """
    annotators = [[unique(_paragraphs(step)) for step in steps] for steps in record.get("evidence") or []]
    sets = [unique(name for step in steps for name in step) for steps in annotators]
    chosen = next((place for place, names in enumerate(sets) if names), None)
    steps = record.get("decomposition") or []
    support = annotators[chosen] if chosen is not None else [[] for _ in steps]
    question = Question(
        id=record["qid"],
        question=record["question"],
        answers=yes_or_no(record.get("answer")),
        gold_ids=sets[chosen] if chosen is not None else [],
        key_facts=texts(record.get("facts")),
        sub_questions=[SubQuestion(question=step, gold_ids=ids) for step, ids in zip(steps, support, strict=True)],
        split=split,
        **extras(record, "term", "description"),
        **({"gold_alternatives": sets} if chosen is not None else {}),
    )
    notes = Counter(
        sub_questions_without_gold=sum(not hop.gold_ids for hop in question.sub_questions),
        sub_questions_with_reference=sum("#" in step for step in steps),
    )
    return Item(question, notes=notes)


def read_bigbench(record: Mapping[str, Any], split: str | None) -> Item:
    """Convert one example of BIG-bench's task; the text of its target after the answer is kept as `explanation`."""
    scores = record["target_scores"]
    answer = max(scores, key=scores.__getitem__).strip().lower()
    _, _, explanation = str(record.get("target") or "").partition(". ")
    question = Question(
        id=text_id(record["input"]),
        question=record["input"],
        answers=yes_or_no({"yes": True, "no": False}.get(answer, answer)),
        split=split,
        **({"explanation": explanation} if explanation else {}),
    )
    return Item(question, has_id=False)


def read_paragraph(record: Mapping[str, Any], _split: str | None) -> Item:
    """Convert one paragraph of the official corpus, with the id that the evidence refers to."""
    name = f"{record['title']}-{record['para_index']}"
    text = record["contents"] if "contents" in record else record["content"]
    return Item(None, [PassageRecord(id=name, title=record["title"], text=text, **extras(record, "section"))])


def _paragraphs(evidence: Any) -> Iterator[str]:
    """Yield the paragraph ids of nested lists of evidence."""
    if isinstance(evidence, str):
        if evidence not in _NO_PARAGRAPH:
            yield evidence
        return
    for part in evidence:
        yield from _paragraphs(part)


SCHEMAS = {
    "official": Schema(("qid", "question"), read_strategyqa, passages=False),
    "bigbench": Schema(("input", "target_scores"), read_bigbench, passages=False),
    "paragraphs": Schema(("title", "para_index", "contents"), read_paragraph, questions=False, distinct=True),
    "paragraphs by id": Schema(("title", "para_index", "content"), read_paragraph, questions=False, distinct=True),
}
