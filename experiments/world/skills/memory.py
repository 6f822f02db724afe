"""Recall: what the simulated LM took from its pretraining, true or not."""

from experiments.world.chance import fraction
from experiments.world.dials import Dials
from experiments.world.facts import World
from experiments.world.grammar import key
from experiments.world.prose import share_word
from experiments.world.relations import BY_NAME, YEAR

_NEAR_YEARS = 9


class Memory:
    """A noisy copy of the world's facts: a belief depends on the seed and the fact alone, so it is always the same.

    Args:
        world: What there was to learn.
        dials: How much of it was learned wrongly or not at all.
    """

    def __init__(self, world: World, dials: Dials):
        self._world = world
        self._dials = dials

    def belief(self, entity: str, relation: str) -> str | None:
        """Return what is believed to be the value of a relation; None where nothing is remembered."""
        truth = self._world.value(entity, relation)
        if truth is None:
            return None
        cause = (self._world.seed, "memory", key(entity), relation)
        mark = fraction(*cause)
        if mark < self._dials.memory_unknown:
            return None
        if mark < self._dials.memory_unknown + self._dials.memory_wrong:
            return self._mistake(entity, relation, truth, cause)
        return truth

    def any_value(self, relation: str, mark: float) -> str:
        """Return a value of the right kind for a guess; `mark` in [0, 1) chooses."""
        values = self._world.values[relation]
        return values[int(mark * len(values))][1]

    def _mistake(self, entity: str, relation: str, truth: str, cause: tuple[object, ...]) -> str:
        values = [(head, value) for head, value in self._world.values[relation] if value != truth]
        alike = [(head, value) for head, value in values if share_word(head, entity)]
        if alike and fraction(*cause, "lookalike") < self._dials.memory_lookalike:
            values = alike
        elif BY_NAME[relation].value == YEAR:
            return str(int(truth) + (1 + int(fraction(*cause, "years") * _NEAR_YEARS)))
        return values[int(fraction(*cause, "which") * len(values))][1]
