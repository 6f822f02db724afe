"""The learning rate over a run: it rises linearly, then falls to 0 at the end of the steps or of the time."""

import math
from typing import Literal


def learning_rate(
    highest: float, step: int, *, progress: float, warmup_steps: int, decay: Literal["linear", "cosine", "none"]
) -> float:
    """Return the learning rate of a step.

    Args:
        highest: After the warm-up.
        step: Number of the step, from 0.
        progress: How much of the run is done, in [0, 1]: of its steps, or of its time if that is shorter.
        warmup_steps: Steps in which it rises.
        decay: How it falls.
    """
    progress = min(max(progress, 0.0), 1.0)
    rise = min((step + 1) / (warmup_steps + 1), 1.0)
    fall = {"linear": 1 - progress, "cosine": (1 + math.cos(math.pi * progress)) / 2, "none": 1.0}[decay]
    return highest * rise * fall
