"""Folders that commands go on with, and a settings file: how each is made, and what reads it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from experiments.benchmarks.mutations.samples import Fixed, connection, questions
from programs.single_step.rag import RAG
from signatures.common.errors import UserError

_STEPS = 2  # of training until it is stopped


def make_study(folder: Path, storage: str | None = None) -> None:
    """Tune a program with three trials, in the folder `study`."""
    _tune(folder, storage)


def use_study(folder: Path, storage: str | None = None) -> Any:
    """Go on with a study by a fourth trial."""
    return _tune(folder, storage, trials=4, resume=True)


def _tune(folder: Path, storage: str | None, *, trials: int = 3, resume: bool = False) -> Any:
    from experiments.pipeline.tuning.config import TuneConfig
    from experiments.pipeline.tuning.tune import tune_program
    from optimizers.metrics.catalog import get_metric

    link, _ = connection()
    place = None if storage is None else storage.format(folder=folder)
    config = TuneConfig(metric=get_metric("em"), trials=trials, threads=1, folds=2, storage=place, study="study")
    how: dict[str, Any] = {"resume": resume, "progress": False, "out": folder / "study"}
    with _without_plots():
        found = tune_program(RAG(Fixed(), k=2), questions(), config, connection=link, **how)
    return [found.record["counts"], found.present]


@contextmanager
def _without_plots() -> Iterator[None]:
    """Leave out what takes longer than all the rest and reads no file."""
    module = "experiments.pipeline.tuning.results."
    with mock.patch(f"{module}draw_all", return_value=[]), mock.patch(f"{module}importances", return_value={}):
        yield


def make_training(folder: Path, base: Path) -> None:
    """Train an adapter of a tiny LM, which is made if it is missing; stop the training of another, in `stopped`."""
    _write_base(base)
    _training(folder, "adapter", base).run()
    _stop(_training(folder, "stopped", base))


def use_training(folder: Path, base: Path) -> Any:
    """Finish the training that was stopped."""
    described = _training(folder, "stopped", base).run(resume=True)
    return [described["steps"], described["examples"]]


def use_adapter(folder: Path, base: Path) -> Any:
    """Train from the adapter, and merge it into its base."""
    from programs.lms.weights import choice

    return [
        choice.weights(str(folder / "adapter")).hash,
        _merged(choice.load(folder / "adapter")),
        _training(folder, "next", base, resume_adapter=str(folder / "adapter")).run()["steps"],
    ]


def _merged(source: Any) -> list[float]:
    return [float(source.read(name).sum()) for name in source.shape.tensors() if ".layers." in name]


def _write_base(folder: Path) -> None:
    """Write a random Llama with one layer and the vocabulary of the embedded LM, which is served."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from optimizers.distill.training.lm.base_model import embedded_tokenizer

    if folder.exists():
        return
    tokenizer = embedded_tokenizer()
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "hidden_size": 64,
        "intermediate_size": 32,
        "num_attention_heads": 1,
        "num_hidden_layers": 1,
    }
    config = LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=512, eos_token_id=2, **sizes)
    LlamaForCausalLM(config).save_pretrained(folder)


def _training(folder: Path, out: str, base: Path, **settings: Any) -> Any:
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
    chosen = make_settings(base=str(base), rank=2, alpha=4, batch_size=2, **settings)
    opened = load_base(chosen.base)
    return Training(opened, read_data(folder / "data", opened.tokenizer, chosen), chosen, folder / out)


def _stop(training: Any) -> None:
    def report(step: Any) -> None:
        if step.step == _STEPS:
            raise KeyboardInterrupt

    try:
        training.run(report=report)
    except KeyboardInterrupt:
        return
    raise RuntimeError("The training was not stopped.")


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
