"""The state of one optimizer in a race."""

from dataclasses import dataclass, field

import dspy

from programs.parts.meter import Meter


@dataclass
class Arm:
    """An optimizer in a race.

    Args:
        name: Of the optimizer, or "uncompiled".
        program: The best it has made.
        scores: Number of a rung -> score by question.
        meter: What it has cost.
        dropped: Why it was dropped; None while it is in the race.
        note: What else is to be said.
        final: Score by question of the final test; empty if it was not in it.
    """

    name: str
    program: dspy.Module
    scores: dict[int, dict[str, float]] = field(default_factory=dict)
    meter: Meter = field(default_factory=Meter)
    dropped: str | None = None
    note: str = ""
    final: dict[str, float] = field(default_factory=dict)

    def mean(self, rung: int) -> float:
        """Return the mean score on a rung on which it was scored."""
        return sum(self.scores[rung].values()) / len(self.scores[rung])
