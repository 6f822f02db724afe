"""The order of the batches over a whole run, and where it ends."""

import math
from collections.abc import Sequence

from optimizers.distill.training.encoding import Encoded
from optimizers.distill.training.rows import batches
from optimizers.distill.training.settings import TrainingSettings
from signatures.common.errors import UserError


class BatchOrder:
    """The batches of a run by step; the same for the same examples and settings.

    Args:
        examples: For training.
        settings: Batch size, epochs, seed and weights of skills.
    """

    def __init__(self, examples: Sequence[Encoded], settings: TrainingSettings):
        self._examples, self._settings = examples, settings
        self._steps: list[list[int]] = []
        self._epochs: list[int] = []  # the first step of each

    def batch(self, step: int) -> list[Encoded]:
        """Return the examples of a step."""
        while len(self._steps) <= step:
            self._next_epoch()
        return [self._examples[place] for place in self._steps[step]]

    def epoch(self, step: int) -> int:
        """Return the epoch of a step, from 0."""
        return max(number for number, first in enumerate(self._epochs) if first <= step)

    def epochs_until(self, step: int) -> float:
        """Return how many passes over the examples the first `step` steps are."""
        if not step:
            return 0.0
        epoch = self.epoch(step - 1)
        end = self._epochs[epoch + 1] if epoch + 1 < len(self._epochs) else len(self._steps)
        return epoch + (step - self._epochs[epoch]) / (end - self._epochs[epoch])

    def steps(self) -> int | None:
        """Return the steps of the whole run; None if only the time ends it."""
        settings = self._settings
        epochs = settings.epochs
        if epochs is None and settings.max_steps is None and settings.hours is None:
            epochs = 1.0
        if epochs is None:
            return settings.max_steps
        while len(self._epochs) < math.ceil(epochs):
            self._next_epoch()
        last = self._epochs[math.ceil(epochs) - 1]
        end = self._epochs[math.ceil(epochs)] if len(self._epochs) > math.ceil(epochs) else len(self._steps)
        part = epochs - math.ceil(epochs) + 1
        steps = last + max(round((end - last) * part), 1)
        return min(steps, settings.max_steps or steps)

    def _next_epoch(self) -> None:
        settings, epoch = self._settings, len(self._epochs)
        self._epochs.append(len(self._steps))
        new = batches(self._examples, settings.batch_size, settings.weights, settings.seed, epoch)
        if not new and epoch > 1000:
            raise UserError("The weights of the skills leave no example. Give one skill a higher weight.")
        self._steps += new
