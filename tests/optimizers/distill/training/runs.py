"""A training run of a tiny model."""

import json
from pathlib import Path
from typing import Any

import pytest

from optimizers.distill.training.data import read_data
from optimizers.distill.training.lm.base_model import load_base
from optimizers.distill.training.log import TrainingStep
from optimizers.distill.training.settings import make_settings
from optimizers.distill.training.train import Training


def make_training(tiny: Path, folder: Path, out: Path, **values: Any) -> Training:
    """Return a run that has not been started.

    Args:
        tiny: Folder of the LM.
        folder: Of the examples.
        out: Of the run.
        values: Settings.
    """
    settings = make_settings(**{"rank": 4, "alpha": 8, "batch_size": 4, "learning_rate": 1e-2, **values})
    base = load_base(str(tiny))
    return Training(base, read_data(folder, base.tokenizer, settings), settings, out)


def interrupt(training: Training, after: int = 1) -> None:
    """Run until the step `after`, and stop there as Ctrl-C does."""

    def stop(step: TrainingStep) -> None:
        if step.step == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training.run(report=stop)


def read_log(out: Path) -> list[dict[str, Any]]:
    """Return the lines of the log of a run."""
    return [json.loads(line) for line in (out / "training.jsonl").read_text().splitlines()]
