"""The options that record the branches of a run."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer


@dataclass(frozen=True)
class Recording:
    """What is recorded beside the answers."""

    PANEL: ClassVar[str] = "Replay"
    record_branches: Annotated[
        bool,
        typer.Option(
            "--record-branches",
            help="Then also ask what other thresholds would ask, and record it all, for `verihop tune --replay`. For "
            "programs with gates: cov_rag, retro_rag, self_completion, cascade.",
        ),
    ] = False
    branches: Annotated[int, typer.Option(min=1, help="Branches of a question at most, its own included.")] = 8

    def most(self) -> int:
        """Return the most branches of a question; 0 records nothing."""
        return self.branches if self.record_branches else 0

    def processes(self, named: int | None) -> int | None:
        """Return the number of processes: a run that is recorded has one unless another number is named."""
        return 1 if self.record_branches and named is None else named
