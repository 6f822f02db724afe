"""What stands for the teacher where gold annotations are the source: no LM is asked."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

GOLD_TEACHER = "gold"


@dataclass(frozen=True)
class Annotations:
    """Stands in the place of a connection.

    Args:
        adapter: Of the student.
    """

    adapter: Any
    id: str = GOLD_TEACHER
    lm: Any = field(default_factory=lambda: SimpleNamespace(model="gold annotations", kwargs={}))
    weights_hash: str | None = None
    probability_mode: str = "none"
