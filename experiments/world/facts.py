"""The simulated world: entities and facts, a pure function of the seed."""

import functools
import random
from dataclasses import dataclass

from experiments.world.grammar import key
from experiments.world.names import NameGenerator
from experiments.world.relations import BY_NAME, RELATIONS, YEAR, relations_of

SIZES: dict[str, int] = {
    "province": 8,
    "town": 48,
    "river": 20,
    "university": 28,
    "company": 72,
    "person": 200,
    "film": 110,
    "book": 90,
}
_YEARS = {"birth_year": (1880, 1960), "founding_year": (1790, 1950), "release_year": (1930, 2015)}
_OTHER_YEARS = (1900, 2010)


@dataclass(frozen=True)
class Entity:
    """A named thing of a type; every entity but a river has a passage."""

    name: str
    kind: str


@dataclass(frozen=True)
class World:
    """All entities by key of their name, and all facts.

    Args:
        seed: Seed of the world.
        entities: By `key(name)`, in a fixed order.
        facts: (key of the head's name, relation name) -> value.
    """

    seed: int
    entities: dict[str, Entity]
    facts: dict[tuple[str, str], str]

    def value(self, entity: str, relation: str) -> str | None:
        """Return the true value of a relation for a named entity; None if it has none."""
        return self.facts.get((key(entity), relation))

    @functools.cached_property
    def values(self) -> dict[str, list[tuple[str, str]]]:
        """All (key of head, value) of each relation, in a fixed order; wrong values are drawn from them."""
        by_relation: dict[str, list[tuple[str, str]]] = {relation.name: [] for relation in RELATIONS}
        for (head, relation), value in self.facts.items():
            by_relation[relation].append((head, value))
        return by_relation


@functools.lru_cache(maxsize=8)
def make_world(seed: int = 0) -> World:
    """Return the world of a seed; the same seed gives the same world on every machine."""
    generator, rng = NameGenerator(seed), random.Random(f"facts:{seed}")
    names = {kind: [generator.name(kind) for _ in range(size)] for kind, size in SIZES.items()}
    entities = {key(name): Entity(name, kind) for kind, group in names.items() for name in group}
    facts: dict[tuple[str, str], str] = {}
    for head, entity in entities.items():
        for relation in relations_of(entity.kind):
            if (head, relation.name) not in facts:
                facts[head, relation.name] = _draw(relation.name, entity, names, rng)
        spouse = facts.get((head, "spouse"))
        if spouse:
            facts[key(spouse), "spouse"] = entity.name  # `_mutual` drops contradictory earlier draws
    return World(seed, entities, _mutual(facts))


def _draw(relation: str, entity: Entity, names: dict[str, list[str]], rng: random.Random) -> str:
    kind = BY_NAME[relation].value
    if kind == YEAR:
        return str(rng.randint(*_YEARS.get(relation, _OTHER_YEARS)))
    return rng.choice([name for name in names[kind] if name != entity.name])


def _mutual(facts: dict[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    """Return the facts without marriages that are stated of one spouse alone."""
    return {
        (head, relation): value
        for (head, relation), value in facts.items()
        if relation != "spouse" or key(facts.get((key(value), "spouse"), "")) == head
    }
