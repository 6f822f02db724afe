"""The facts that the texts of a prompt state, and which of several contradictory statements is accepted."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from experiments.world.grammar import Fact, Plan, facts_of, key, value_of
from experiments.world.passage_text import Statement, parse_passage, title_of

LISTED = 0
"""The source number of a line in a list of single facts, which is no passage."""

_NUMBER = re.compile(r"^\[(\d+)\]\s")


@dataclass(frozen=True)
class Source:
    """A text that states facts.

    Args:
        number: Of the passage as the prompt marks it, from 1; `LISTED` for a listed fact.
        title: Of the passage; empty if it has none.
        statements: The facts it states, in order.
    """

    number: int
    title: str
    statements: tuple[Statement, ...]


def parse_sources(passages: Iterable[str], listed_facts: Iterable[str] = ()) -> list[Source]:
    """Return passages (`[n] title: text`, mark and title optional) and listed facts as sources."""
    sources = [
        Source(_number(text, place), title_of(text), parse_passage(text)) for place, text in enumerate(passages, 1)
    ]
    return sources + [Source(LISTED, "", parse_passage(text)) for text in listed_facts]


def _number(text: str, place: int) -> int:
    mark = _NUMBER.match(text)
    return int(mark[1]) if mark else place


@dataclass(frozen=True)
class SourcedStatement:
    """A statement and the number of its source."""

    number: int
    statement: Statement


def statements_about(sources: Sequence[Source], entity: str, relation: str) -> list[SourcedStatement]:
    """Return every statement of one fact, in order."""
    return [item for item in statements_of_relation(sources, relation) if key(item.statement.head) == key(entity)]


def statements_of_relation(sources: Iterable[Source], relation: str) -> list[SourcedStatement]:
    """Return every statement of a relation, about any entity, in order."""
    return [
        SourcedStatement(source.number, statement)
        for source in sources
        for statement in source.statements
        if statement.relation == relation
    ]


def best_supported(sources: Sequence[Source], entity: str, relation: str) -> SourcedStatement | None:
    """Return the statement of a fact that a reader accepts; None if no source states the fact.

    The value that most passages state wins; among equals that of the passage titled with the entity, then the first.
    Listed facts may derive from the passages, so they add nothing to a value that a passage states; a value that only
    listed facts state counts as one source. Of the statements of the winning value, a listed one is returned if
    available, because it is the easiest to read.
    """
    candidates = statements_about(sources, entity, relation)
    if not candidates:
        return None
    own_passages = {source.number for source in sources if source.number != LISTED and key(source.title) == key(entity)}
    sources_by_value: dict[str, set[int]] = {}
    for item in candidates:
        sources_by_value.setdefault(key(item.statement.value), set()).add(item.number)

    def support(value: str) -> tuple[int, bool]:
        numbers = sources_by_value[value]
        return max(1, len(numbers - {LISTED})), bool(numbers & own_passages)

    value = max(sources_by_value, key=support)  # of equals, max returns the first
    agreeing = [item for item in candidates if key(item.statement.value) == value]
    return next((item for item in agreeing if item.number == LISTED), agreeing[0])


@dataclass(frozen=True)
class FactInSources:
    """One fact of a plan as the sources state it.

    Args:
        entity: Subject of the fact; None if an earlier hop is not stated.
        value: The stated value; None if there is none.
    """

    entity: str | None
    relation: str
    value: str | None


def look_up_facts(plan: Plan, sources: Sequence[Source]) -> list[FactInSources]:
    """Return each fact of a plan as the sources state it, read without error; inner hops first."""

    def lookup(entity: str, relation: str) -> str | None:
        accepted = best_supported(sources, entity, relation)
        return accepted.statement.value if accepted else None

    def look_up(fact: Fact) -> FactInSources:
        entity = value_of(fact.of, lookup)
        return FactInSources(entity, fact.relation, lookup(entity, fact.relation) if entity else None)

    return [look_up(fact) for fact in facts_of(plan)]
