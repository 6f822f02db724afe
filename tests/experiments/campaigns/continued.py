"""Folders that commands go on with, and a settings file: how each is made, and what reads it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

from programs.single_step.rag import RAG
from signatures.common.errors import UserError
from tests.experiments.campaigns.samples import connection, questions, retriever
from tests.tiny_llama import write_servable_llama

JOURNAL = "journal:{folder}/study.jsonl"
_PLOTS = "experiments.pipeline.tuning.results."
_STEPS = 2  # of training until it is stopped


def root_of(folder: Path) -> Path:
    """Return the folder of the campaign, which contains `originals`, the scratch folder and the base of trainings."""
    return next(parent for parent in folder.parents if (parent / "originals").is_dir())


def tune(folder: Path, storage: str | None = None, *, trials: int = 3, resume: bool = False) -> Any:
    """Tune a program, in the folder `study`; going on with four trials adds one."""
    from experiments.pipeline.tuning.config import TuneConfig
    from experiments.pipeline.tuning.tune import tune_program
    from optimizers.metrics.catalog import get_metric

    link, _ = connection()
    place = None if storage is None else storage.format(folder=folder)
    config = TuneConfig(metric=get_metric("em"), trials=trials, threads=1, folds=2, storage=place, study="study")
    how: dict[str, Any] = {"resume": resume, "progress": False, "out": folder / "study"}
    # Plots take longer than all the rest, and read no file; a trial that a mutation has left open is soon given up.
    with (
        mock.patch(f"{_PLOTS}draw_all", return_value=[]),
        mock.patch(f"{_PLOTS}importances", return_value={}),
        mock.patch("optimizers.tuning.storages.open_storage.__kwdefaults__", {"heartbeat": 1, "grace": 3}),
    ):
        found = tune_program(RAG(retriever(), k=2), questions(), config, connection=link, **how)
    return [found.record["counts"], found.present]


def make_training(folder: Path) -> None:
    """Train an adapter of a tiny LM; stop the training of another, in `stopped`."""
    if not (base := root_of(folder) / "base").exists():
        write_servable_llama(base, positions=512)
    _training(folder, "adapter").run()

    def report(step: Any) -> None:
        if step.step == _STEPS:
            raise KeyboardInterrupt

    try:
        _training(folder, "stopped").run(report=report)
    except KeyboardInterrupt:
        return
    raise RuntimeError("The training was not stopped.")


def use_training(folder: Path) -> Any:
    """Finish the training that was stopped."""
    described = _training(folder, "stopped").run(resume=True)
    return [described["steps"], described["examples"]]


def use_adapter(folder: Path) -> Any:
    """Train from the adapter, and merge it into its base."""
    from programs.lms.weights import choice

    merged = choice.load(folder / "adapter")
    layers = [float(merged.read(name).sum()) for name in merged.shape.tensors() if ".layers." in name]
    following = _training(folder, "next", resume_adapter=str(folder / "adapter")).run()["steps"]
    return [choice.weights(str(folder / "adapter")).hash, layers, following]


def _training(folder: Path, out: str, **settings: Any) -> Any:
    from optimizers.distill.examples import Example, Message, write_examples
    from optimizers.distill.training.data import read_data
    from optimizers.distill.training.lm.base_model import load_base
    from optimizers.distill.training.settings import make_settings
    from optimizers.distill.training.train import Training

    about = {"program": "rag", "predictor": "read", "skill": "reading", "source": "made", "licence": "CC0-1.0"}
    examples = [
        Example(messages=(Message(role="user", content=f"Question {number}?"),), completion="amber",
                question_id=f"q{number}", labels="made", split="train", **about)
        for number in range(8)
    ]  # fmt: skip
    if not (folder / "data").exists():
        write_examples(folder / "data" / "examples.jsonl", examples)
    chosen = make_settings(base=str(root_of(folder) / "base"), rank=2, alpha=4, batch_size=2, **settings)
    opened = load_base(chosen.base)
    return Training(opened, read_data(folder / "data", opened.tokenizer, chosen), chosen, folder / out)


def make_settings_file(folder: Path) -> None:
    """Write a settings file with values of all types."""
    lines = ['lm = "simulated"', "threads = 2", "timeout = 12.5", "cache = false", 'budget = ["calls=5", "usd=0.5"]']
    (folder / "verihop.toml").write_text("\n".join([*lines, 'reasoning = "off"', ""]))


def use_settings_file(folder: Path) -> Any:
    """Return what `verihop config` says of the settings."""
    command = [sys.executable, "-m", "experiments.cli.main", "config", "--json"]
    environment = {**os.environ, "VERIHOP_CONFIG": str(folder / "verihop.toml")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode == 2 and "Traceback" not in done.stderr:
        raise UserError(done.stderr.strip())
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)["settings"]
