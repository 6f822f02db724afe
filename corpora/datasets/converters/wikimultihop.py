"""2WikiMultihopQA: the official JSON files, the hub's copies, and the separate official file of aliases.

Ho et al., "Constructing A Multi-hop QA Dataset for Comprehensive Evaluation of Reasoning Steps", COLING 2020.
https://github.com/Alab-NII/2wikimultihop
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ujson

from corpora.datasets.converters.hotpotqa import context_passages, gold_facts, question_of
from corpora.datasets.converters.ircot import IRCOT
from corpora.datasets.schema import Item, Schema, TitledGold, extras, unique
from corpora.jsonl import bad_line, read_objects
from corpora.passages import PassageRecord
from corpora.questions import Question, SubQuestion
from signatures.text_words import without_brackets

Triple = tuple[str, str, str]


def read_wikimultihop(record: Mapping[str, Any], split: str | None) -> Item:
    """Convert one question; the evidence triples, from which sub-questions are made, are kept as `evidences`."""
    passages = context_passages(record["context"])
    gold = TitledGold(passages, gold_facts(record.get("supporting_facts")))
    triples = _triples(record.get("evidences"))
    gold_passages = list({passage.id: passage for passage in passages if passage.id in gold.ids}.values())
    hops, notes = _sub_questions(record.get("qa_pairs") or [], triples, gold_passages)
    more = extras(record, "entity_ids", "evidences_id", "answer_id")
    if triples:
        more["evidences"] = [list(triple) for triple in triples]
    question = question_of(record, split, gold, passages, sub_questions=hops, **more)
    return Item(question, passages, gold.notes + notes)


def read_aliases(path: Path | str) -> dict[str, list[str]]:
    """Return the accepted names of each Wikidata entity from the official `id_aliases.json` (JSON lines).

    Demonyms count as names, as in the official evaluation.

    Raises:
        UserError: A line has no `Q_id`.
    """
    names: dict[str, list[str]] = {}
    for line, value in read_objects(path):
        if not isinstance(value.get("Q_id"), str):
            raise bad_line(path, line, "no 'Q_id'", "Give the official id_aliases.json of 2WikiMultihopQA.")
        names[value["Q_id"]] = unique([*(value.get("aliases") or []), *(value.get("demonyms") or [])])
    return names


def with_aliases(question: Question, aliases: Mapping[str, Sequence[str]]) -> Question:
    """Return the question with all names of its answer's entity as answers, the original answer first."""
    names = aliases.get(str((question.model_extra or {}).get("answer_id")), ())
    return question.model_copy(update={"answers": unique([*question.answers, *names])})


def _triples(value: Any) -> list[Triple]:
    """Return `(subject, relation, object)` triples from lists, dicts or a JSON text."""
    entries = ujson.loads(value) if isinstance(value, str) else value or []
    named = [
        (entry["fact"], entry["relation"], entry["entity"]) if isinstance(entry, Mapping) else entry
        for entry in entries
    ]
    return [(subject, relation, target) for subject, relation, target in named]


def _sub_questions(
    pairs: Sequence[Mapping[str, str]], triples: Sequence[Triple], gold: Sequence[PassageRecord]
) -> tuple[list[SubQuestion], Counter[str]]:
    """Pair each sub-question with its triple, which has the short answer; if there are none, make them of triples."""
    texts = [(pair["question"], pair["answer"]) for pair in pairs]
    if not texts:
        texts = [(f"{subject} >> {relation}", target) for subject, relation, target in triples]
    unused = list(triples)
    hops: list[SubQuestion] = []
    notes: Counter[str] = Counter()
    for place, (question, answer) in enumerate(texts):
        triple = _best(question, answer, unused, expected=place - (len(triples) - len(unused)))
        if triple:
            unused.remove(triple)
        ids = _passages_about(triple[0] if triple else None, question, gold)
        notes["sub_questions_without_gold"] += not ids
        hops.append(SubQuestion(question=question, answer=triple[2] if triple else answer, gold_ids=ids))
    return hops, notes


def _best(question: str, answer: str, triples: Sequence[Triple], expected: int) -> Triple | None:
    """Return the triple with its subject in the question and its object in the answer; position breaks ties."""

    def score(place: int) -> tuple[int, int]:
        subject, _, target = triples[place]
        named = (subject.lower() in question.lower()) + (target.lower() in answer.lower())
        return named, -abs(place - expected)

    return triples[max(range(len(triples)), key=score)] if triples else None


def _passages_about(subject: str | None, question: str, gold: Sequence[PassageRecord]) -> list[str]:
    """Return the gold passages with the subject as title, else the one whose title is in the sub-question."""
    for key in (lambda text: text.lower(), lambda text: without_brackets(text).lower()):
        ids = [passage.id for passage in gold if subject is not None and key(passage.title) == key(subject)]
        if ids:
            return ids
    named = [p for p in gold if without_brackets(p.title).lower() in question.lower() and p.title]
    return [max(named, key=lambda passage: len(passage.title)).id] if named else []


SCHEMAS = {
    "official": Schema(("_id", "question", "context", "evidences"), read_wikimultihop),
    "hub": Schema(("id", "question", "context", "evidences"), read_wikimultihop),
    "ircot": IRCOT,
}
