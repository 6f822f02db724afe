"""How long a training run takes, measured on a few of its batches without changing a weight."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from optimizers.distill.training.data import Row
from optimizers.distill.training.train import Training

COUNTED = 5000  # steps whose tokens are counted; those of longer runs are estimated by the mean of these


@dataclass(frozen=True)
class TrainingEstimate:
    """The size of a run.

    Args:
        examples: For training.
        steps: Of the whole run.
        tokens: Computed in these steps; what is shared is counted once. Of more than `COUNTED` steps an estimate.
        tokens_per_second: Measured.
        hours: Of the steps, without measurements on the validation examples.
        epochs: Passes over the examples.
        measured: Whether replies, a program, or losses on the way are measured, too, which takes more time.
    """

    examples: int
    steps: int
    tokens: int
    tokens_per_second: float
    hours: float
    epochs: float
    measured: bool = False

    def __str__(self) -> str:
        time = f"{self.hours:.1f} hours" if self.hours >= 1 else f"{self.hours * 60:.1f} minutes"
        more = " and the time of the measurements; if hours are given, fewer steps fit" if self.measured else ""
        return (
            f"{self.examples:,} examples, {self.steps:,} steps, {self.epochs:.2f} epochs, {self.tokens:,} tokens at "
            f"{self.tokens_per_second:,.0f} tokens/s: about {time}{more}."
        )


def estimate(training: Training, *, seconds: float = 10.0) -> TrainingEstimate:
    """Return the size of a run that has not been started.

    Args:
        training: The run.
        seconds: Measure for about this time, at least one batch.
    """
    speed = _speed(training, seconds)
    most = training.settings.hours * 3600 * speed if training.settings.hours is not None else math.inf  # tokens
    total = training.total if training.total is not None else math.inf
    step = tokens = 0
    while step < min(total, COUNTED):
        rows = training.student.rows(training.order.batch(step))
        more = sum(len(row.tokens) for row in rows)
        if tokens + more > most:
            total = step
            break
        tokens += more
        step += 1
    if step < total:
        mean = tokens / step
        step = int(min(total, max(most / mean, step)))
        tokens = round(mean * step)
    return TrainingEstimate(
        examples=len(training.data.train),
        steps=step,
        tokens=tokens,
        tokens_per_second=speed,
        hours=tokens / speed / 3600,
        epochs=training.order.epochs_until(step),
        measured=bool(training.evaluate or (training.settings.evaluate_every and training.data.validation)),
    )


def _speed(training: Training, seconds: float) -> float:
    clock = training.clock
    _compute(training, training.student.rows(training.order.batch(0))[:1])  # warms up
    tokens, step, started = 0, 0, clock()
    while True:
        rows = training.student.rows(training.order.batch(step))
        tokens += _compute(training, rows)
        step += 1
        if clock() - started >= seconds or step == training.total:
            return tokens / max(clock() - started, 1e-9)


def _compute(training: Training, rows: Sequence[Row]) -> int:
    """Compute the gradients of some rows, forget them, and return the tokens."""
    for row in rows:
        loss, _ = training.student.losses(row)
        loss.backward()
    training.optimizer.zero_grad(set_to_none=True)
    return sum(len(row.tokens) for row in rows)
