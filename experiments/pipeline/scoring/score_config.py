"""What answers are scored by."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.pipeline.scoring.passage_texts import Corpus
from experiments.runs.config import check_metrics
from optimizers.metrics.metric import Metric

if TYPE_CHECKING:
    from programs.lms.connect import Connection


@dataclass(frozen=True, kw_only=True)
class ScoreConfig:
    """How answers are scored.

    Args:
        metrics: At least one.
        questions: `questions.jsonl` with the gold; None for the file of the run, if it is unchanged.
        split: Only its questions of this split, for predictions: a run has questions of its own.
        corpus: Where the texts of passages are found.
        judge: The LM that decides judged metrics.
        threads: Answers scored in parallel.
        progress: Show a bar on stderr.

    Raises:
        UserError: There is no metric, a judged metric lacks its judge, or a judge has nothing to decide.
    """

    metrics: Sequence[Metric]
    questions: Path | None = None
    split: str | None = None
    corpus: Corpus = field(default_factory=Corpus)
    judge: "Connection | None" = None
    threads: int = 8
    progress: bool = True

    def __post_init__(self) -> None:
        check_metrics(self.metrics, self.judge)
