"""Files of predictions, and what scoring them gives."""

import json
from pathlib import Path
from typing import Any

from experiments.pipeline.scoring.foreign import score_predictions
from experiments.pipeline.scoring.score import ScoreReport
from experiments.pipeline.scoring.score_config import ScoreConfig
from optimizers.metrics.typed.opened import open_typed


def lines(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def score(path: Path, questions: Path, names: str, out: str = "out", **options: Any) -> ScoreReport:
    metrics = open_typed(names.split(","))
    config = ScoreConfig(metrics=metrics, questions=questions, progress=False, threads=1, **options)
    return score_predictions(path, config, path.parent / out)


def means(report: ScoreReport) -> dict[str, float | None]:
    return {name: mean.mean for name, mean in report.summary.metrics.items()}
