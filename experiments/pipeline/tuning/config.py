"""What a study searches, on which terms, and where it is kept."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.runs.specs import CandidateSpec, StudySpec
from optimizers.teleprompters.task import check_seed
from optimizers.tuning.defaults import PRUNE_BELOW, check_prune_below, check_sampler
from optimizers.tuning.objective import Goal
from signatures.common.errors import UserError
from signatures.common.files import sha256_file
from signatures.common.specs import deciding

if TYPE_CHECKING:
    from optimizers.metrics.catalog import Metric
    from programs.lms.connect import Connection

DATABASE = "study.db"  # in the folder of the study, unless a storage is named
_OTHER_KINDS = ("ensemble", "knn")  # optimizers that wrap the program
QUICK_JOURNAL = "study.journal"  # of a replay, whose trials take less time than a transaction


@dataclass(frozen=True, kw_only=True)
class Candidates(CandidateSpec):
    """Where demonstrations and instructions come from, beside those that the program has.

    Raises:
        UserError: An optimizer makes a program of another kind, which has no demonstrations to try.
    """

    prompt_lm: "Connection | None" = None

    def __post_init__(self) -> None:
        for name in self.optimizers:
            if name in _OTHER_KINDS:
                raise UserError(
                    f"Optimizer {name} makes a program of another kind, not demonstrations for this one: leave it out "
                    "of the study, and compile with it separately."
                )

    @property
    def trained(self) -> bool:
        """Whether training questions are needed."""
        return bool(self.optimizers or self.instructions)

    def describe(self) -> dict[str, Any]:
        """Return what decides the candidates, as JSON values."""
        return deciding(
            CandidateSpec,
            self,
            artifacts=[sha256_file(folder / "artifact.json") for folder in self.artifacts],
            prompt_lm=self.prompt_lm and self.prompt_lm.id,
        )


@dataclass(frozen=True, kw_only=True)
class TuneConfig(StudySpec):
    """A study with all that its specification names opened.

    Args:
        goal: The cost that is minimized beside the metric, if any, and limits on costs.
        candidates: Demonstrations and instructions to try.
        index: Folder of the index; the artifact stores its path relative to itself.
        provenance: Further data for the artifact, such as paths of question files.

    Raises:
        UserError: A judge LM decides the metric, lower is better in it, the sampler is unknown, the seed is negative,
            a p is given without pruning, or a replay is to do what it cannot.
    """

    metric: "Metric"
    goal: Goal = field(default_factory=Goal)
    candidates: Candidates = Candidates()
    index: Path | None = None
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_sampler(self.sampler)
        check_prune_below(self.prune_below)
        if not self.prune and self.prune_below != PRUNE_BELOW:
            raise UserError(f"Trials are not pruned, so that a p of {self.prune_below} has no meaning: leave it out.")
        check_seed(self.seed)
        self._check_replay()
        if self.metric.judged and self.replay is None:
            raise UserError(f"{self.metric.name} is decided by a judge LM, which a study lacks: tune for another.")
        if not self.metric.higher_is_better:
            raise UserError(
                f"Lower is better in {self.metric.name}: tune for a metric that is better when higher, and name "
                "calls, tokens, seconds or usd as the cost."
            )

    def _check_replay(self) -> None:
        if self.replay is None:
            if self.buy:
                raise UserError("Only a replay buys branches that its record lacks: name the recorded run.")
            return
        if self.candidates.trained or self.candidates.artifacts:
            raise UserError("A record has one set of prompts: replay knobs alone, or tune without a record.")
        if "seconds" in (self.goal.cost, *self.goal.at_most):
            raise UserError("Seconds cannot be replayed: choose calls, tokens or usd as the cost.")

    @property
    def pruned(self) -> bool:
        """Whether trials may be ended early: not where that would save nothing."""
        return self.prune and self.goal.cost is None and self.sampler != "grid" and self.replay is None
