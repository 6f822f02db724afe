"""Chance as a pure function of its causes: no generator, no order, no clock."""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

Option = TypeVar("Option")


def fraction(*causes: object) -> float:
    """Return a number in [0, 1) that depends on the causes alone, uniform over different causes."""
    digest = hashlib.blake2b("\x1f".join(map(str, causes)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


class Dice:
    """The chance that one prompt meets.

    Args:
        seed: The simulated LM's seed.
        prompt: Everything the LM was shown.
        sample: The sampling seed; None at temperature 0.
        spread: Share in [0, 1] of the labels whose dice the sampling seed casts anew.
    """

    def __init__(self, seed: int, prompt: str, sample: object = None, spread: float = 0.0):
        self._prompt = f"{seed}:{hashlib.blake2b(prompt.encode(), digest_size=16).hexdigest()}"
        self._sample = sample
        self._spread = spread if sample is not None else 0.0

    def roll(self, *label: object) -> float:
        """Return a number in [0, 1) for what `label` names."""
        if self._spread and fraction(self._prompt, "anew", self._sample, *label) < self._spread:
            return fraction(self._prompt, self._sample, *label)
        return fraction(self._prompt, *label)

    def happens(self, probability: float, *label: object) -> bool:
        """Return whether what `label` names happens."""
        return self.roll(*label) < probability

    def choose(self, options: Sequence[Option], *label: object, weights: Sequence[float] | None = None) -> Option:
        """Return one of `options` (at least one), by weight where weights are given."""
        weights = weights or [1.0] * len(options)
        mark = self.roll("choose", *label) * sum(weights)
        for option, weight in zip(options, weights, strict=True):
            mark -= weight
            if mark < 0:
                return option
        return options[-1]
