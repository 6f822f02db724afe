"""Random draws as a pure function of what they depend on: no generator state, no call order, no clock.

They depend on what a prompt is about (`PromptInputs.content`) and on the skill that it asks for, never on its wording:
an optimizer that tries instructions could otherwise pick one for its luck.

The labels passed to `Draws` are part of what is hashed: changing one changes the replies.
"""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

Option = TypeVar("Option")


def hashed_uniform(*causes: object) -> float:
    """Return a number in [0, 1) that depends on `causes` alone, uniform over different causes."""
    digest = hashlib.blake2b("\x1f".join(map(str, causes)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


class Draws:
    """Random draws keyed by the content of one prompt.

    Args:
        seed: The simulated LM's seed.
        content: What the prompt is about and asks for, without its wording.
        sample: The sampling seed; None at temperature 0.
        spread: Share in [0, 1] of the labels whose draw depends on the sampling seed.
    """

    def __init__(self, seed: int, content: str, sample: object = None, spread: float = 0.0):
        self._content = f"{seed}:{hashlib.blake2b(content.encode(), digest_size=16).hexdigest()}"
        self._sample = sample
        self._spread = spread if sample is not None else 0.0

    def uniform(self, *label: object) -> float:
        """Return the number in [0, 1) drawn for `label`."""
        if self._spread and hashed_uniform(self._content, "anew", self._sample, *label) < self._spread:
            return hashed_uniform(self._content, self._sample, *label)
        return hashed_uniform(self._content, *label)

    def happens(self, probability: float, *label: object) -> bool:
        """Return whether the event `label`, which has this probability, happens."""
        return self.uniform(*label) < probability

    def choose(self, options: Sequence[Option], *label: object, weights: Sequence[float] | None = None) -> Option:
        """Return one of `options` (at least one), in proportion to `weights`; equal weights by default."""
        weights = weights or [1.0] * len(options)
        position = self.uniform("choose", *label) * sum(weights)
        for option, weight in zip(options, weights, strict=True):
            position -= weight
            if position < 0:
                return option
        return options[-1]
