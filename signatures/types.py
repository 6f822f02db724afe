"""Data types that all folders share: passage, hop, turn, and the protocols of a retriever and a similarity.

This module imports nothing of the project.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from pydantic import BaseModel, ConfigDict
from pydantic_core import to_jsonable_python

QuoteMatch: TypeAlias = Literal["verbatim", "near", "absent"]
"""How a quote stands in a passage: word for word; as a paraphrase that keeps its names, numbers, dates and negations;
not at all, so that it is no evidence."""


class _Value(BaseModel):
    """An immutable model, equal by value."""

    model_config = ConfigDict(frozen=True)

    def __reduce__(self) -> tuple[Any, ...]:
        """Serialise by value, because pydantic adds a set, whose order differs between processes.

        DSPy samples demonstrations by a hash of the serialised trace, which must not differ.
        """
        return type(self).model_validate, (self.model_dump(),)


class Passage(_Value):
    """One unit of retrieval.

    Args:
        id: Unique within its corpus; gold passages are named by these ids.
        title: Title of the passage's article; may be empty.
        text: The passage without its title.
        score: The retriever's score for the query, higher is better; the scale depends on the retriever. None outside a
            ranking.
    """

    id: str
    title: str = ""
    text: str
    score: float | None = None

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The passage's other keys in the corpus (source, page, url ...), as JSON values; no prompt contains them."""
        return self.model_extra or {}


class SourcedPassage(Passage):
    """A passage with other keys than those of `Passage`; `metadata` returns them.

    Its text form is that of a `Passage`, because optimizers of DSPy put text forms of values into prompts.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    def __repr_name__(self) -> str:
        return Passage.__name__

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [(name, value) for name, value in super().__repr_args__() if name in Passage.model_fields]


class Candidate(_Value):
    """One piece of evidence that a hop weighed, and whether it was kept.

    Args:
        text: A passage with its title, or a claim.
        passage_id: Id of the passage; None for a claim that an LM inferred.
        score: Its last score in [0, 1]; None if it was not scored or the score was unparseable.
        kept: Whether later steps see it.
        reason: Why it was kept or dropped, as a text to display.
        gates: Test name -> P(yes) in [0, 1]; None for an unparseable reply.
    """

    text: str
    passage_id: str | None = None
    score: float | None = None
    kept: bool
    reason: str
    gates: dict[str, float | None] = {}


class Hop(_Value):
    """One step of reasoning: a sub-question, its answer and how it was found.

    Prompts show question, answer and evidence only; the other fields are for reports and metrics.

    Args:
        question: The sub-question, understandable on its own.
        answer: The answer that later hops use.
        draft: The answer before it was checked against passages; None if there was no draft.
        evidence: Quote from a passage that supports the answer; None if there is none.
        match: How the evidence stands in the passages read; None without evidence, and in runs written before this was
            recorded.
        passage_ids: Passages read for this hop, in reading order.
        verdict: Result of the check of the draft; the strategy's docstring defines the values.
        candidates: Evidence weighed in this hop, kept and dropped, in the order weighed.
    """

    question: str
    answer: str
    draft: str | None = None
    evidence: str | None = None
    match: QuoteMatch | None = None
    passage_ids: list[str] = []
    verdict: str | None = None
    candidates: list[Candidate] = []


class Turn(_Value):
    """One question of a conversation and what it was answered; both may be any text."""

    question: str
    answer: str = ""


@runtime_checkable
class Retriever(Protocol):
    """Ranks the passages of one corpus for a query.

    Implementations are thread-safe and define `__deepcopy__` to return themselves, because optimizers copy programs.
    """

    @property
    def fingerprint(self) -> str:
        """Return a short stable string that changes with corpus, engine and parameters."""

    def __call__(self, query: str, k: int) -> list[Passage]:
        """Return at most `k` passages, best first, each with its score."""

    def many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Return the rankings of all queries in their order; the same as one call per query, but faster."""


def make_passage(fields: Mapping[str, Any]) -> Passage:
    """Return a `SourcedPassage` if there are other keys than the fields of `Passage`, else a `Passage`."""
    kind = Passage if fields.keys() <= Passage.model_fields.keys() else SourcedPassage
    return kind.model_validate(fields)


def plain_metadata(passage: Passage) -> dict[str, Any]:
    """Return the metadata of a passage as JSON values; what is none, as a date of an own retriever, becomes text."""
    values: dict[str, Any] = to_jsonable_python(dict(passage.metadata), fallback=str)
    return values


def deduplicate(passages: Iterable[Passage]) -> list[Passage]:
    """Return the passages in order, the first of each id."""
    first: dict[str, Passage] = {}
    for passage in passages:
        first.setdefault(passage.id, passage)
    return list(first.values())


class Similarity(Protocol):
    """Semantic similarity of every text of one list to every text of another."""

    @property
    def fingerprint(self) -> str:
        """Return a short stable string that changes with the model and its weights."""

    def __call__(self, left: Sequence[str], right: Sequence[str]) -> Any:
        """Return an array of shape (len(left), len(right)) with cosines in [-1, 1]."""
