"""Shapes of benchmark records, the result of converting one, and gold looked up by title."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from corpora.passages import PassageRecord
from corpora.questions import Question


@dataclass(frozen=True)
class Item:
    """One converted record.

    Args:
        question: None if the dataset has no questions.
        passages: The paragraphs of the record, in its order.
        notes: What could not be kept unchanged, counted by name.
        has_id: Whether the record has an id; if not, `text_id` made one.
    """

    question: Question | None
    passages: Sequence[PassageRecord] = ()
    notes: Counter[str] = field(default_factory=Counter)
    has_id: bool = True


@dataclass(frozen=True)
class Schema:
    """One format in which a benchmark is published.

    Args:
        keys: Keys that every record of this shape has.
        read: Converts a record, given the name of its split.
        without: Keys of another benchmark with otherwise the same shape.
        questions: Whether its records contain questions.
        passages: Whether its records contain passages.
        distinct: Whether no passage occurs twice, so that a corpus of any size is converted in constant memory.
        parts: For records with several questions: yields a record for each, which `read` converts.
    """

    keys: tuple[str, ...]
    read: Callable[[Mapping[str, Any], str | None], Item]
    without: tuple[str, ...] = ()
    questions: bool = True
    passages: bool = True
    distinct: bool = False
    parts: Callable[[Mapping[str, Any]], Iterable[Mapping[str, Any]]] | None = None

    def fits(self, record: Mapping[str, Any]) -> bool:
        """Return whether `record` has this shape."""
        return all(key in record for key in self.keys) and not any(key in record for key in self.without)


class TitledGold:
    """Gold stated by title and sentence number, looked up among a question's paragraphs.

    `notes` counts titles without a paragraph (`gold_titles_missing`), titles of several different paragraphs, of which
    the first is taken (`gold_titles_ambiguous`), and sentence numbers beyond the end of their paragraph
    (`gold_sentences_out_of_range`: dropped, but the paragraph is gold; HotpotQA has some).
    """

    def __init__(self, passages: Iterable[PassageRecord], facts: Iterable[tuple[str, int]]) -> None:
        self.notes: Counter[str] = Counter()
        self.ids: list[str] = []
        self.sentences: list[tuple[str, int]] = []
        by_title: dict[str, dict[str, PassageRecord]] = {}
        for passage in passages:
            by_title.setdefault(passage.title, {}).setdefault(passage.id, passage)
        unknown: set[str] = set()
        for title, number in dict.fromkeys(facts):
            candidates = list(by_title.get(title, {}).values())
            if not candidates:
                self.notes["gold_titles_missing"] += title not in unknown
                unknown.add(title)
                continue
            passage = candidates[0]
            if passage.id not in self.ids:
                self.ids.append(passage.id)
                self.notes["gold_titles_ambiguous"] += len(candidates) > 1
            if 0 <= number < len(passage.sentences or ()):
                self.sentences.append((passage.id, number))
            else:
                self.notes["gold_sentences_out_of_range"] += 1


def text_id(question: str) -> str:
    """Return an id for a question that has none: the same in every file; white space and case are ignored."""
    digest = hashlib.sha256("".join(question.lower().split()).encode("utf-8", "surrogatepass"))
    return f"q-{digest.hexdigest()[:12]}"


def texts(value: Any) -> list[str]:
    """Return an answer, or a list of answers, as distinct stripped texts; blank texts and None are skipped."""
    values = value if isinstance(value, list | tuple) else [value]
    return unique(text for text in (str(item).strip() for item in values if item is not None) if text)


def extras(record: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the named keys of `record` that have a value, to be kept with the question unchanged."""
    return {name: record[name] for name in names if record.get(name) not in (None, "", [])}


def unique(ids: Iterable[str]) -> list[str]:
    """Return `ids` without repeats, in order of first appearance."""
    return list(dict.fromkeys(ids))
