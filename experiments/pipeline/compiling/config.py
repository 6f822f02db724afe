"""How a program is compiled."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from signatures.common.errors import UserError

if TYPE_CHECKING:
    from optimizers.metrics.catalog import Metric
    from programs.lms.connect import Connection


@dataclass(frozen=True, kw_only=True)
class CompileConfig:
    """How a program is compiled, and further data for its artifact.

    Args:
        metric: What the optimizer maximizes; also scored on the validation questions.
        optimizer: A name of `optimizers.teleprompters.catalog.OPTIMIZERS`.
        options: Arguments specific to the optimizer.
        accept: Lowest score of a training question that makes it a demonstration, in [0, 1].
        max_demos: Maximum number of demonstrations per predictor.
        seed: Seed of the order of the training questions and of every random choice.
        threads: Questions in progress at a time.
        teacher: The LM that makes demonstrations; None means the LM of the program.
        prompt: The LM that writes instructions; None means the LM of the program.
        index: Folder of the index; the artifact stores its path relative to itself.
        provenance: Further data for the artifact, such as paths of question files.

    Raises:
        UserError: A judge LM decides the metric; a compilation has none.
    """

    metric: "Metric"
    optimizer: str = "bootstrap"
    options: Mapping[str, Any] = field(default_factory=dict)
    accept: float = 1.0
    max_demos: int = 4
    seed: int = 0
    threads: int = 8
    teacher: "Connection | None" = None
    prompt: "Connection | None" = None
    index: Path | None = None
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.metric.judged:
            raise UserError(
                f"{self.metric.name} is decided by a judge LM, which a compilation lacks: optimize another."
            )
