"""Losses that are no numbers: one is skipped, many end the run, and no file gets weights that are no numbers."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from optimizers.distill.training.log import TrainingStep
from optimizers.distill.training.train import Training
from signatures.common.errors import UserError
from tests.optimizers.distill.training.runs import interrupt, make_training, read_log


def break_losses(training: Training, monkeypatch: pytest.MonkeyPatch, steps: set[int]) -> None:
    """Make the loss of some steps infinite."""
    losses = training.student.losses

    def broken(row: Any) -> tuple[Any, Any]:
        loss, single = losses(row)
        return (loss * float("inf"), single) if training.step + 1 in steps else (loss, single)

    monkeypatch.setattr(training.student, "losses", broken)


def test_a_step_whose_loss_is_no_number_is_skipped(
    tiny: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = make_training(tiny, folder, tmp_path / "out")
    break_losses(training, monkeypatch, {3})
    weights: dict[int, dict[str, torch.Tensor]] = {}

    def keep(step: TrainingStep) -> None:
        weights[step.step] = {name: weight.detach().clone() for name, weight in training.student.weights.items()}

    description = training.run(report=keep)
    assert all(torch.equal(weights[2][name], weights[3][name]) for name in weights[2])
    assert not all(torch.equal(weights[3][name], weights[4][name]) for name in weights[3])
    assert description["skipped"] == 1
    assert [line["loss"] is None for line in read_log(tmp_path / "out")] == [False, False, True, False, False]


def test_weights_that_diverge_end_the_run_without_files_of_them(tiny: Path, folder: Path, tmp_path: Path) -> None:
    values = {"learning_rate": 1e9, "clip": 1e9, "warmup_steps": 0, "epochs": 8, "checkpoint_minutes": 1e-9}
    with pytest.raises(UserError, match="Lower the learning rate"):
        make_training(tiny, folder, tmp_path / "out", **values).run()
    assert not (tmp_path / "out" / "training.json").exists()
    assert "NaN" not in (tmp_path / "out" / "training.jsonl").read_text()
    for path in (tmp_path / "out").rglob("*.safetensors"):
        assert all(bool(value.isfinite().all()) for value in load_file(path).values()), path


def test_a_run_that_diverges_leaves_its_last_checkpoint_and_weights_to_go_on_from(
    tiny: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    training = make_training(tiny, folder, out, epochs=8, checkpoint_minutes=1e-9)
    break_losses(training, monkeypatch, set(range(7, 99)))
    with pytest.raises(UserError, match=r"\A.*of step 6 are in '.*last'.*\Z"):
        training.run()
    assert [path.name for path in out.glob("checkpoint-*")] == ["checkpoint-0000006"]
    assert json.loads((out / "checkpoint-0000006" / "state.json").read_text())["skipped"] == 0
    saved = load_file(out / "checkpoint-0000006" / "weights.safetensors")
    second = make_training(tiny, folder, tmp_path / "second", resume_adapter=str(out / "last"), learning_rate=1e-3)
    for name, weight in second.student.weights.items():
        torch.testing.assert_close(saved[name], weight, rtol=1e-3, atol=1e-4)
    assert second.run()["steps"] == 5


def test_a_validation_loss_that_is_no_number_ends_the_run(
    tiny: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = make_training(tiny, folder, tmp_path / "out")
    losses = training.student.losses

    def broken(row: Any) -> tuple[Any, Any]:
        loss, single = losses(row)
        return loss, single if torch.is_grad_enabled() else single * float("nan")

    monkeypatch.setattr(training.student, "losses", broken)
    with pytest.raises(UserError, match="validation examples is not a number after step 5"):
        training.run()
    assert not (tmp_path / "out" / "training.json").exists()


def test_a_checkpoint_of_before_is_resumed(tiny: Path, folder: Path, tmp_path: Path) -> None:
    """Its state counts no skipped steps."""
    interrupt(make_training(tiny, folder, tmp_path / "out"))
    path = tmp_path / "out" / "checkpoint-0000001" / "state.json"
    state = json.loads(path.read_text())
    state.pop("skipped", None)
    path.write_text(json.dumps(state))
    assert make_training(tiny, folder, tmp_path / "out").run(resume=True)["steps"] == 5
