"""Multi-hop questions about the world, with everything a benchmark knows about them."""

import random
from collections.abc import Callable, Iterator
from typing import Any

from experiments.world.facts import World
from experiments.world.grammar import Fact, Name, Node, Pair, Plan, ask, compare, facts_of, key, value_of
from experiments.world.prose import Written
from experiments.world.relations import BY_NAME, RELATIONS, relations_of

Record = dict[str, Any]


# Two-hop bridges are the bulk of HotpotQA; three-hop bridges and comparisons of chains are what MuSiQue and
# 2WikiMultihopQA add. Weights of the shares, in the order of `_COMPOSERS`.
_WEIGHTS = {"bridge-2": 40, "bridge-3": 25, "comparison": 12, "bridge-comparison": 11, "yes/no": 12}

_PATIENCE = 500  # draws in a row that bring no new question before the world counts as asked out


def compose(world: World, written: dict[str, Written], ids: dict[str, str], count: int, seed: int) -> Iterator[Record]:
    """Yield `count` different questions as records of the questions file (without id and split).

    Args:
        written: Key of an entity -> its passage.
        ids: Key of an entity -> id of its passage.

    Raises:
        ValueError: The world has no more questions to ask.
    """
    chance = random.Random(f"questions:{world.seed}:{seed}")
    seen: set[Plan] = set()
    misses = 0
    while len(seen) < count:
        misses += 1
        if misses > _PATIENCE:
            raise ValueError(f"this world has little more than {len(seen)} questions of these kinds")
        kind = chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        plan = _COMPOSERS[kind](world, chance)
        if plan is None or plan in seen:
            continue
        answer = answer_of(world, plan)
        if answer is None:
            continue
        seen.add(plan)
        misses = 0
        yield {"type": kind, **_record(world, written, ids, plan, answer, chance)}


def answer_of(world: World, plan: Plan) -> str | None:
    """Return the true answer of a plan."""
    if isinstance(plan, Fact):
        return value_of(plan, world.value)
    left, right = value_of(plan.left, world.value), value_of(plan.right, world.value)
    if left is None or right is None or (plan.kind == "earlier" and left == right):
        return None
    return compare(plan, left, right, world.value)


def _chain(world: World, chance: random.Random, hops: int) -> Fact | None:
    """Return a chain of `hops` relations from a film, book, company, university or town; None where it is a loop."""
    entity = chance.choice([item for item in world.entities.values() if item.kind not in {"river", "province"}])
    node: Node = Name(entity.name)
    kind, visited = entity.kind, {entity.name}
    for hop in range(hops):
        last = hop == hops - 1
        options = [relation for relation in relations_of(kind) if last or relation.phrases]
        if not options:
            return None
        relation = chance.choice(options)
        node, kind = Fact(relation.name, node), relation.value
        value = value_of(node, world.value)
        if value is None or value in visited:
            return None
        visited.add(value)
    return node if isinstance(node, Fact) else None


def _bridge(hops: int) -> Callable[[World, random.Random], Plan | None]:
    return lambda world, chance: _chain(world, chance, hops)


def _comparison(world: World, chance: random.Random) -> Plan | None:
    relation = chance.choice([relation for relation in RELATIONS if relation.earlier])
    left, right = _two(world, chance, chance.choice(relation.heads))
    return Pair("earlier", Fact(relation.name, left), Fact(relation.name, right))


def _bridge_comparison(world: World, chance: random.Random) -> Plan | None:
    """Return a comparison of what one relation of two entities leads to: the directors of two films, by birth."""
    inner = chance.choice([item for item in RELATIONS if item.phrases and item.value in {"person", "company"}])
    outer = chance.choice([item for item in relations_of(inner.value) if item.earlier])
    left, right = (Fact(inner.name, name) for name in _two(world, chance, chance.choice(inner.heads)))
    if value_of(left, world.value) in {None, value_of(right, world.value)}:
        return None
    return Pair("earlier", Fact(outer.name, left), Fact(outer.name, right))


def _yes_no(world: World, chance: random.Random) -> Plan | None:
    """Return a question whether two entities share a value; half of them do."""
    relation = chance.choice([relation for relation in RELATIONS if relation.same])
    left, right = _two(world, chance, chance.choice(relation.heads))
    if chance.random() < 0.5:
        head, value = chance.choice(world.values[relation.name])
        alike = [other for other, theirs in world.values[relation.name] if theirs == value and other != head]
        if not alike:
            return None
        left, right = (Name(world.entities[item].name) for item in (head, chance.choice(alike)))
    return Pair("same", Fact(relation.name, left), Fact(relation.name, right))


_COMPOSERS: dict[str, Callable[[World, random.Random], Plan | None]] = {
    "bridge-2": _bridge(2),
    "bridge-3": _bridge(3),
    "comparison": _comparison,
    "bridge-comparison": _bridge_comparison,
    "yes/no": _yes_no,
}


def _two(world: World, chance: random.Random, kind: str) -> tuple[Name, Name]:
    names = [item.name for item in world.entities.values() if item.kind == kind]
    left, right = chance.sample(names, 2)
    return Name(left), Name(right)


def _record(
    world: World, written: dict[str, Written], ids: dict[str, str], plan: Plan, answer: str, chance: random.Random
) -> Record:
    gold_ids, gold_sentences, key_facts, sub_questions = [], [], [], []
    for fact in facts_of(plan):
        entity = value_of(fact.of, world.value) or ""
        value = world.value(entity, fact.relation) or ""
        head = key(entity)
        gold_ids.append(ids[head])
        gold_sentences.append([ids[head], written[head].stated[fact.relation]])
        key_facts.append(BY_NAME[fact.relation].statements[0].format(x=entity, y=value))
        asked = ask(Fact(fact.relation, Name(entity)), chance.choice)
        sub_questions.append({"question": asked, "answer": value, "gold_ids": [ids[head]]})
    return {
        "question": ask(plan, chance.choice),
        "answers": [answer],
        "gold_ids": list(dict.fromkeys(gold_ids)),
        "gold_sentences": gold_sentences,
        "key_facts": key_facts,
        "sub_questions": sub_questions,
    }
