"""What the gold of a training question says: its steps, its passages by title, and which answers match."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optimizers.metrics import answer, retrieval
from optimizers.metrics.fields import gold_ids_of, golds_of, passages_of
from signatures.types import Hop, Passage

_LONGEST = 200  # characters of a text that feedback repeats


@dataclass(frozen=True)
class GoldStep:
    """One step of the gold decomposition.

    Args:
        question: The sub-question.
        golds: Its accepted answers; empty if unknown.
        gold_ids: Ids of the passages that answer it; empty if unknown.
    """

    question: str
    golds: tuple[str, ...] = ()
    gold_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Gold:
    """The gold of one question, in the form that feedback needs.

    Args:
        golds: Accepted answers, the main one first.
        gold_ids: Ids of the passages needed.
        steps: The gold decomposition; empty if the question has none.
        titles: Passage id -> title, of passages that were read and of gold.
        texts: Passage id -> text, of passages that were read.
    """

    golds: tuple[str, ...]
    gold_ids: tuple[str, ...]
    steps: tuple[GoldStep, ...]
    titles: Mapping[str, str]
    texts: Mapping[str, str] = field(default_factory=dict)

    def title(self, passage_id: str) -> str:
        """Return a passage's title in quotation marks; its id if the title is unknown."""
        known = self.titles.get(passage_id)
        return f'"{known}"' if known else passage_id

    def named(self, ids: Iterable[str]) -> str:
        """Return the titles of passages, joined by commas, each once."""
        return ", ".join(dict.fromkeys(self.title(id) for id in ids))

    def settled(self, hops: Sequence[Hop]) -> int:
        """Return how many of the first gold steps are settled by some hop, one after the other."""
        count = 0
        for step in self.steps:
            if not any(settles(hop, step) for hop in hops):
                break
            count += 1
        return count

    def step_of(self, question: str) -> GoldStep | None:
        """Return the gold step whose question shares most words with `question`; None if it shares less than half."""
        scored = [(_overlap(question, step.question), -number) for number, step in enumerate(self.steps)]
        best, number = max(scored, default=(0.0, 0))
        return self.steps[-number] if best >= 0.5 else None


def gold_of(example: Any, prediction: Any, titles: Mapping[str, str] | None = None) -> Gold:
    """Return the gold of an example.

    Args:
        example: With gold fields.
        prediction: Its passages give the titles of what was read.
        titles: Passage id -> title, for gold passages that were not read; by default the title in the ids of converted
            benchmarks.
    """
    steps = [dict(step) for step in getattr(example, "sub_questions", None) or []]
    ids = [*gold_ids_of(example), *(id for step in steps for id in step.get("gold_ids") or [])]
    known = {id: title for id in ids if (title := (titles or {}).get(id) or _converted_title(id))}
    read: list[Passage] = list(passages_of(prediction))
    return Gold(
        golds=tuple(golds_of(example)),
        gold_ids=tuple(dict.fromkeys(ids)),
        steps=tuple(
            GoldStep(
                str(step["question"]),
                (str(step["answer"]),) if step.get("answer") else (),
                tuple(step.get("gold_ids") or ()),
            )
            for step in steps
            if step.get("question")
        ),
        titles={**known, **{passage.id: passage.title for passage in read if passage.title}},
        texts={passage.id: passage.text for passage in read},
    )


def _converted_title(passage_id: str) -> str | None:
    """Return the title in an id that our converters made, in lower case; None for other ids."""
    key = retrieval.converted_article(passage_id)
    return key.replace("-", " ") if key else None


def matches(text: str, golds: Sequence[str]) -> bool:
    """Return whether a text equals or contains an accepted answer, in the sense of cover-EM."""
    return bool(golds) and answer.cover_substring(text, list(golds)) == 1.0


def settles(hop: Hop, step: GoldStep) -> bool:
    """Return whether a hop gives the answer of a gold step; a hop without answer, whether it found a gold passage."""
    if hop.answer.strip() and step.golds:
        return matches(hop.answer, step.golds)
    return bool(set(hop.passage_ids) & set(step.gold_ids))


def quoted(text: Any) -> str:
    """Return a text as one line in quotation marks, cut after 200 characters."""
    line = " ".join(str(text).split())
    return f'"{line}"' if len(line) <= _LONGEST else f'"{line[:_LONGEST]}..."'


def _overlap(one: str, other: str) -> float:
    shared = answer.token_overlap(one, [other], answer.SQUAD)
    return shared.f1 if shared else 0.0
