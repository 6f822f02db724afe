"""The grammar of the world's questions: rendering a plan as a question and parsing a question into a plan.

A plan is a tree: `Name` is an entity, `Fact` the value that a relation has for another node, and `Comparison` compares
two facts. The simulated LM understands questions by parsing them; there is no list of questions.
"""

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from experiments.world.relations import BY_NAME, RELATIONS
from signatures.text import normalize_answer


@dataclass(frozen=True)
class Name:
    """An entity, by the name in the question."""

    text: str


@dataclass(frozen=True)
class Fact:
    """The value of relation `relation` for the entity of the node `of`."""

    relation: str
    of: "Name | Fact"


@dataclass(frozen=True)
class Comparison:
    """A comparison of two facts: which of them is earlier, or whether they have the same value."""

    kind: Literal["earlier", "same"]
    left: Fact
    right: Fact


Node = Name | Fact
Plan = Fact | Comparison
Lookup = Callable[[str, str], str | None]
"""(entity, relation name) -> value, or None if it is unknown."""

_SLOT = re.compile(r"\\\{[xyab]\\\}")
_LATER_QUESTIONS = re.compile(r"\? .*$")
_MAX_DEPTH = 6


def key(name: str) -> str:
    """Return the normalised form of a name, equal for all its spellings."""
    return normalize_answer(name)


def pattern(template: str) -> re.Pattern[str]:
    """Return the expression that matches a template and captures its slots; the case of the first letter is ignored."""
    escaped = re.escape(template)
    body = _SLOT.sub(lambda slot: f"(?P<{slot[0][2]}>.+?)", escaped)
    if body[0].isalpha():
        body = f"[{body[0].upper()}{body[0].lower()}]{body[1:]}"
    return re.compile(body)


_QUESTIONS = [(relation.name, pattern(text)) for relation in RELATIONS for text in relation.questions]
_PHRASES = [(relation.name, pattern(text)) for relation in RELATIONS for text in relation.phrases]
_COMPARISONS = [
    (kind, relation.name, pattern(text))
    for relation in RELATIONS
    for kind, text in (("earlier", relation.earlier), ("same", relation.same))
    if text
]


@functools.lru_cache(maxsize=50_000)
def parse_question(text: str) -> Plan | None:
    """Return the plan of a question, or None if it is not a question about this world.

    Of several questions in a row only the first is parsed; the others are queries for what it lacks.
    """
    text = _LATER_QUESTIONS.sub("?", " ".join(text.split()))
    for kind, relation, expression in _COMPARISONS:
        if match := expression.fullmatch(text):
            left, right = _parse_node(match["a"]), _parse_node(match["b"])
            if left and right:
                return Comparison(kind, Fact(relation, left), Fact(relation, right))  # type: ignore[arg-type]
    for relation, expression in _QUESTIONS:
        if (match := expression.fullmatch(text)) and (inner := _parse_node(match["x"])):
            return Fact(relation, inner)
    return None


def _parse_node(text: str, depth: int = 0) -> Node | None:
    """Return the node of a noun phrase or a name; names start with a capital letter or a digit. None otherwise."""
    for relation, expression in _PHRASES:
        if (match := expression.fullmatch(text)) and depth < _MAX_DEPTH:
            inner = _parse_node(match["x"], depth + 1)
            if inner:
                return Fact(relation, inner)
    return Name(text) if text[:1].isupper() or text[:1].isdigit() else None


def render_phrase(node: Node, choose: Callable[[tuple[str, ...]], str]) -> str:
    """Return the words for a node; `choose` picks one of several phrasings."""
    if isinstance(node, Name):
        return node.text
    return choose(BY_NAME[node.relation].phrases).format(x=render_phrase(node.of, choose))


def render_question(plan: Plan, choose: Callable[[tuple[str, ...]], str]) -> str:
    """Return the question for a plan; `choose` picks one of several phrasings."""
    if isinstance(plan, Comparison):
        relation = BY_NAME[plan.left.relation]
        template = relation.earlier if plan.kind == "earlier" else relation.same
        return template.format(a=render_phrase(plan.left.of, choose), b=render_phrase(plan.right.of, choose))
    return choose(BY_NAME[plan.relation].questions).format(x=render_phrase(plan.of, choose))


def facts_of(plan: Plan | Name) -> Iterator[Fact]:
    """Yield every fact a plan needs, inner ones first, left before right."""
    if isinstance(plan, Comparison):
        yield from facts_of(plan.left)
        yield from facts_of(plan.right)
    elif isinstance(plan, Fact):
        yield from facts_of(plan.of)
        yield plan


def value_of(node: Node, lookup: Lookup) -> str | None:
    """Return the entity or value of a node by looking up every fact; None if one is unknown."""
    if isinstance(node, Name):
        return node.text
    entity = value_of(node.of, lookup)
    return None if entity is None else lookup(entity, node.relation)


def next_missing_fact(plan: Plan, lookup: Lookup) -> tuple[str, str] | None:
    """Return the first (entity, relation) of a plan that `lookup` does not know; None if all are known."""
    for fact in facts_of(plan):
        entity = value_of(fact.of, lookup)
        if entity is not None and lookup(entity, fact.relation) is None:
            return entity, fact.relation
    return None


def compare(plan: Comparison, left: str, right: str, lookup: Lookup) -> str | None:
    """Return the answer of a comparison from its two values: the name of the earlier one, or yes or no."""
    if plan.kind == "same":
        return "yes" if key(left) == key(right) else "no"
    if not (left.isdigit() and right.isdigit()):
        return None
    return value_of(plan.left.of if int(left) <= int(right) else plan.right.of, lookup)
