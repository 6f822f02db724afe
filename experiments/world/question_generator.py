"""Random multi-hop questions about the world, with their answers, gold passages, key facts and sub-questions."""

import random
from collections.abc import Callable, Iterator
from typing import Any

from experiments.world.facts import World
from experiments.world.grammar import (
    Comparison,
    Fact,
    Name,
    Node,
    Plan,
    compare,
    facts_of,
    key,
    render_question,
    value_of,
)
from experiments.world.passage_text import PassageText
from experiments.world.relations import BY_NAME, RELATIONS, relations_of

Record = dict[str, Any]


# Two-hop bridges are the bulk of HotpotQA; three-hop bridges and comparisons of chains are what MuSiQue and
# 2WikiMultihopQA add. Weights of the shares, in the order of `_GENERATORS`.
_WEIGHTS = {"bridge-2": 40, "bridge-3": 25, "comparison": 12, "bridge-comparison": 11, "yes/no": 12}

_MAX_MISSES = 500  # consecutive draws without a new question after which the world counts as exhausted


def generate_questions(
    world: World, texts: dict[str, PassageText], ids: dict[str, str], count: int, seed: int
) -> Iterator[Record]:
    """Yield `count` different questions as records of the questions file (without id and split).

    Args:
        texts: Key of an entity -> its passage.
        ids: Key of an entity -> id of its passage.

    Raises:
        ValueError: The world has too few questions.
    """
    rng = random.Random(f"questions:{world.seed}:{seed}")
    seen: set[Plan] = set()
    misses = 0
    while len(seen) < count:
        misses += 1
        if misses > _MAX_MISSES:
            raise ValueError(f"this world has hardly more than {len(seen)} questions of these kinds")
        kind = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        plan = _GENERATORS[kind](world, rng)
        if plan is None or plan in seen:
            continue
        answer = true_answer(world, plan)
        if answer is None:
            continue
        seen.add(plan)
        misses = 0
        yield {"type": kind, **_record(world, texts, ids, plan, answer, rng)}


def true_answer(world: World, plan: Plan) -> str | None:
    """Return the true answer of a plan."""
    if isinstance(plan, Fact):
        return value_of(plan, world.value)
    left, right = value_of(plan.left, world.value), value_of(plan.right, world.value)
    if left is None or right is None or (plan.kind == "earlier" and left == right):
        return None
    return compare(plan, left, right, world.value)


def _chain(world: World, rng: random.Random, hops: int) -> Fact | None:
    """Return a chain of `hops` relations from a film, book, company, university or town; None if it would be a loop."""
    entity = rng.choice([item for item in world.entities.values() if item.kind not in {"river", "province"}])
    node: Node = Name(entity.name)
    kind, visited = entity.kind, {entity.name}
    for hop in range(hops):
        last = hop == hops - 1
        options = [relation for relation in relations_of(kind) if last or relation.phrases]
        if not options:
            return None
        relation = rng.choice(options)
        node, kind = Fact(relation.name, node), relation.value
        value = value_of(node, world.value)
        if value is None or value in visited:
            return None
        visited.add(value)
    return node if isinstance(node, Fact) else None


def _bridge(hops: int) -> Callable[[World, random.Random], Plan | None]:
    return lambda world, rng: _chain(world, rng, hops)


def _comparison(world: World, rng: random.Random) -> Plan | None:
    relation = rng.choice([relation for relation in RELATIONS if relation.earlier])
    left, right = _two_names(world, rng, rng.choice(relation.heads))
    return Comparison("earlier", Fact(relation.name, left), Fact(relation.name, right))


def _bridge_comparison(world: World, rng: random.Random) -> Plan | None:
    """Return a comparison of the values that two entities have for a relation: the directors of two films, by birth."""
    inner = rng.choice([item for item in RELATIONS if item.phrases and item.value in {"person", "company"}])
    outer = rng.choice([item for item in relations_of(inner.value) if item.earlier])
    left, right = (Fact(inner.name, name) for name in _two_names(world, rng, rng.choice(inner.heads)))
    if value_of(left, world.value) in {None, value_of(right, world.value)}:
        return None
    return Comparison("earlier", Fact(outer.name, left), Fact(outer.name, right))


def _yes_no(world: World, rng: random.Random) -> Plan | None:
    """Return a question whether two entities share a value; the answer is yes for about half of the draws."""
    relation = rng.choice([relation for relation in RELATIONS if relation.same])
    left, right = _two_names(world, rng, rng.choice(relation.heads))
    if rng.random() < 0.5:
        head, value = rng.choice(world.values[relation.name])
        same_value = [other for other, its_value in world.values[relation.name] if its_value == value and other != head]
        if not same_value:
            return None
        left, right = (Name(world.entities[item].name) for item in (head, rng.choice(same_value)))
    return Comparison("same", Fact(relation.name, left), Fact(relation.name, right))


_GENERATORS: dict[str, Callable[[World, random.Random], Plan | None]] = {
    "bridge-2": _bridge(2),
    "bridge-3": _bridge(3),
    "comparison": _comparison,
    "bridge-comparison": _bridge_comparison,
    "yes/no": _yes_no,
}


def _two_names(world: World, rng: random.Random, kind: str) -> tuple[Name, Name]:
    names = [item.name for item in world.entities.values() if item.kind == kind]
    left, right = rng.sample(names, 2)
    return Name(left), Name(right)


def _record(
    world: World, texts: dict[str, PassageText], ids: dict[str, str], plan: Plan, answer: str, rng: random.Random
) -> Record:
    gold_ids, gold_sentences, key_facts, sub_questions = [], [], [], []
    for fact in facts_of(plan):
        entity = value_of(fact.of, world.value) or ""
        value = world.value(entity, fact.relation) or ""
        head = key(entity)
        gold_ids.append(ids[head])
        gold_sentences.append([ids[head], texts[head].stated[fact.relation]])
        key_facts.append(BY_NAME[fact.relation].statements[0].format(x=entity, y=value))
        sub_question = render_question(Fact(fact.relation, Name(entity)), rng.choice)
        sub_questions.append({"question": sub_question, "answer": value, "gold_ids": [ids[head]]})
    return {
        "question": render_question(plan, rng.choice),
        "answers": [answer],
        "gold_ids": list(dict.fromkeys(gold_ids)),
        "gold_sentences": gold_sentences,
        "key_facts": key_facts,
        "sub_questions": sub_questions,
    }
