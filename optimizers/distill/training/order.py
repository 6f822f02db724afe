"""The order of the batches over a whole run, and where it ends."""

import math
from bisect import bisect_right
from collections.abc import Sequence

from optimizers.distill.training.encoding import Encoded
from optimizers.distill.training.rows import batches, epoch_size
from optimizers.distill.training.settings import TrainingSettings
from signatures.common.errors import UserError

MOST_DRAWS = 4_000_000  # random numbers that counting the steps of a run may take: about a second
_MOST_EMPTY = 1000  # epochs that tiny weights may leave without an example


class BatchOrder:
    """The batches of a run by step; the same for the same examples and settings.

    Only the epoch of the last step asked for is kept. Whole weights give every epoch as many steps; with others the
    epochs are counted one by one, and what is beyond `MOST_DRAWS` is estimated by the mean of those counted.

    Args:
        examples: For training.
        settings: Batch size, epochs, seed and weights of skills.
    """

    def __init__(self, examples: Sequence[Encoded], settings: TrainingSettings):
        self._examples, self._settings = examples, settings
        self._starts = [0]  # the first step of each epoch that was counted, and the step after the last
        self._epoch, self._batches = -1, list[list[int]]()
        whole = all(float(settings.weights.get(example.skill, 1.0)).is_integer() for example in examples)
        self._same = self._size(0) if whole else 0  # steps of every epoch; 0 if they differ
        self._counted = max(MOST_DRAWS // max(len(examples), 1), 1)  # epochs

    def batch(self, step: int) -> list[Encoded]:
        """Return the examples of a step."""
        settings, epoch = self._settings, self.epoch(step)
        if epoch != self._epoch:
            self._batches = batches(self._examples, settings.batch_size, settings.weights, settings.seed, epoch)
            self._epoch = epoch
        return [self._examples[place] for place in self._batches[step - self._first(epoch)]]

    def epoch(self, step: int) -> int:
        """Return the epoch of a step, from 0."""
        if self._same:
            return step // self._same
        while self._starts[-1] <= step:
            self._count()
        return bisect_right(self._starts, step) - 1

    def epochs_until(self, step: int) -> float:
        """Return how many passes over the examples the first `step` steps are."""
        if not step:
            return 0.0
        if not self._same and step > (known := self._before(self._counted)):
            return step * self._counted / max(known, 1)
        epoch = self.epoch(step - 1)
        first = self._first(epoch)
        return epoch + (step - first) / (self._first(epoch + 1) - first)

    def steps(self) -> int | None:
        """Return the steps of the whole run; None if only the time ends it."""
        settings = self._settings
        epochs = settings.epochs
        if epochs is None and settings.max_steps is None and settings.hours is None:
            epochs = 1.0
        if epochs is None:
            return settings.max_steps
        before, after = self._before(math.ceil(epochs) - 1), self._before(math.ceil(epochs))
        part = epochs - math.ceil(epochs) + 1
        steps = before + max(round((after - before) * part), 1)
        return min(steps, settings.max_steps or steps)

    def _first(self, epoch: int) -> int:
        """Return the first step of an epoch that was reached, or of the next."""
        return epoch * self._same if self._same else self._starts[epoch]

    def _before(self, epoch: int) -> int:
        """Return the steps of all epochs before this one; of many that differ, an estimate."""
        if self._same:
            return epoch * self._same
        known = min(epoch, self._counted)
        while len(self._starts) <= known:
            self._count()
        return self._starts[known] * epoch // max(known, 1)

    def _count(self) -> None:
        epoch = len(self._starts) - 1
        size = self._size(epoch)
        if not size and epoch > _MOST_EMPTY:
            raise UserError("The weights of the skills leave no example. Give one skill a higher weight.")
        self._starts.append(self._starts[-1] + size)

    def _size(self, epoch: int) -> int:
        settings = self._settings
        return math.ceil(epoch_size(self._examples, settings.weights, settings.seed, epoch) / settings.batch_size)
