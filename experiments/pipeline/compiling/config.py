"""A compilation with all that its specification names opened."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.runs.specs import CompileSpec
from signatures.common.errors import UserError

if TYPE_CHECKING:
    from optimizers.metrics.metric import Metric
    from programs.lms.connect import Connection


@dataclass(frozen=True, kw_only=True)
class CompileConfig(CompileSpec):
    """A compilation with all that its specification names opened, and further data for its artifact.

    Args:
        teacher: The LM that makes demonstrations; None means the LM of the program.
        prompt: The LM that writes instructions; None means the LM of the program.
        index: Folder of the index; the artifact stores its path relative to itself.
        provenance: Further data for the artifact, such as paths of question files.

    Raises:
        UserError: A judge LM decides the metric; a compilation has none.
    """

    metric: "Metric"
    teacher: "Connection | None" = None
    prompt: "Connection | None" = None
    index: Path | None = None
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.metric.judged:
            raise UserError(
                f"{self.metric.name} is decided by a judge LM, which a compilation lacks: optimize another."
            )

    def lms(self, connection: "Connection") -> dict[str, Any]:
        """Return the LMs of the compilation of a program on `connection`, by what they do."""
        links = {"lm": connection, "teacher": self.teacher, "prompt": self.prompt}
        return {name: link.lm for name, link in links.items() if link is not None}
