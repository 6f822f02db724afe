"""Recall: the facts that the simulated LM has in memory, right or wrong."""

from experiments.world.dials import Dials
from experiments.world.draws import hashed_uniform
from experiments.world.facts import World
from experiments.world.grammar import key
from experiments.world.passage_text import shares_word
from experiments.world.relations import BY_NAME, YEAR

_MAX_YEARS_OFF = 9


class Memory:
    """A noisy copy of the world's facts; what is stored of a fact depends on the seed and the fact alone.

    Args:
        world: The true facts.
        dials: Which share of them is stored wrongly or not at all.
    """

    def __init__(self, world: World, dials: Dials):
        self._world = world
        self._dials = dials

    def remembered(self, entity: str, relation: str) -> str | None:
        """Return the stored value of a relation, right or wrong; None if nothing is stored."""
        truth = self._world.value(entity, relation)
        if truth is None:
            return None
        causes = (self._world.seed, "memory", key(entity), relation)
        draw = hashed_uniform(*causes)
        if draw < self._dials.memory_unknown:
            return None
        if draw < self._dials.memory_unknown + self._dials.memory_wrong:
            return self._wrong_value(entity, relation, truth, causes)
        return truth

    def namesakes(self, entity: str, relation: str) -> list[str]:
        """Return the other entities with this relation whose names share a word with this one."""
        heads = dict.fromkeys(head for head, _ in self._world.values[relation])
        return [head for head in heads if key(head) != key(entity) and shares_word(head, entity)]

    def arbitrary_value(self, relation: str, draw: float) -> str:
        """Return the value of the relation that `draw` in [0, 1) selects."""
        values = self._world.values[relation]
        return values[int(draw * len(values))][1]

    def _wrong_value(self, entity: str, relation: str, truth: str, causes: tuple[object, ...]) -> str:
        values = [(head, value) for head, value in self._world.values[relation] if value != truth]
        namesakes = [(head, value) for head, value in values if shares_word(head, entity)]
        if namesakes and hashed_uniform(*causes, "lookalike") < self._dials.memory_lookalike:
            values = namesakes
        elif BY_NAME[relation].value == YEAR:
            return str(int(truth) + (1 + int(hashed_uniform(*causes, "years") * _MAX_YEARS_OFF)))
        return values[int(hashed_uniform(*causes, "which") * len(values))][1]
