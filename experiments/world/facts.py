"""The world itself: entities and facts, a pure function of the seed."""

import functools
import random
from dataclasses import dataclass

from experiments.world.grammar import key
from experiments.world.names import Namer
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
_YEARS_ELSE = (1900, 2010)


@dataclass(frozen=True)
class Entity:
    """One thing that has a name and a type; passages are written about all but rivers."""

    name: str
    kind: str


@dataclass(frozen=True)
class World:
    """All entities by key of their name, and all facts.

    Args:
        seed: What the world was made from.
        entities: By `key(name)`, in a fixed order.
        facts: (key of the head's name, relation name) -> value.
    """

    seed: int
    entities: dict[str, Entity]
    facts: dict[tuple[str, str], str]

    def value(self, entity: str, relation: str) -> str | None:
        """Return the true value of a relation for a named entity, or None where there is none."""
        return self.facts.get((key(entity), relation))

    @functools.cached_property
    def values(self) -> dict[str, list[tuple[str, str]]]:
        """All (key of head, value) of each relation, in a fixed order: the plausible ways to be wrong."""
        found: dict[str, list[tuple[str, str]]] = {relation.name: [] for relation in RELATIONS}
        for (head, relation), value in self.facts.items():
            found[relation].append((head, value))
        return found


@functools.lru_cache(maxsize=8)
def make_world(seed: int = 0) -> World:
    """Return the world of a seed; the same seed gives the same world on every machine."""
    namer, chance = Namer(seed), random.Random(f"facts:{seed}")
    names = {kind: [namer.name(kind) for _ in range(size)] for kind, size in SIZES.items()}
    entities = {key(name): Entity(name, kind) for kind, group in names.items() for name in group}
    facts: dict[tuple[str, str], str] = {}
    for head, entity in entities.items():
        for relation in relations_of(entity.kind):
            if (head, relation.name) not in facts:
                facts[head, relation.name] = _draw(relation.name, entity, names, chance)
        spouse = facts.get((head, "spouse"))
        if spouse:
            facts[key(spouse), "spouse"] = entity.name  # marriage is mutual, where the spouse was not drawn before
    return World(seed, entities, _mutual(facts))


def _draw(relation: str, entity: Entity, names: dict[str, list[str]], chance: random.Random) -> str:
    kind = BY_NAME[relation].value
    if kind == YEAR:
        return str(chance.randint(*_YEARS.get(relation, _YEARS_ELSE)))
    return chance.choice([name for name in names[kind] if name != entity.name])


def _mutual(facts: dict[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    """Return the facts without marriages that the other side does not know of."""
    return {
        (head, relation): value
        for (head, relation), value in facts.items()
        if relation != "spouse" or key(facts.get((key(value), "spouse"), "")) == head
    }
