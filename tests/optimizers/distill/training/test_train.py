"""Training runs of a tiny model: they learn, are resumed exactly, and write files that PEFT reads."""

import json
from pathlib import Path

import pytest
import torch

from optimizers.distill.training.data import read_data
from optimizers.distill.training.lm.base_model import load_base
from optimizers.distill.training.log import TrainingStep
from optimizers.distill.training.settings import make_settings
from optimizers.distill.training.train import Training
from signatures.common.errors import UserError
from tests.optimizers.distill.training.runs import interrupt, make_training, read_log


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lora", "full"])
def test_training_lowers_the_loss_of_both_splits(tiny: Path, folder: Path, tmp_path: Path, method: str) -> None:
    training = make_training(tiny, folder, tmp_path / "out", method=method, epochs=8)
    training.measure()
    before = training.measured.pop()["losses"]
    description = training.run()
    after = description["validation"][-1]["losses"]
    assert after.keys() == {"all", "reading", "yes_no"}
    assert after["all"] < before["all"] / 2
    log = read_log(tmp_path / "out")
    assert len(log) == description["steps"] == 8 * 5
    assert log[-1]["loss"] < log[0]["loss"] / 4
    assert json.loads((tmp_path / "out" / "training.json").read_text()) == description


def test_peft_loads_the_adapter_and_computes_the_same(tiny: Path, folder: Path, tmp_path: Path) -> None:
    from peft import PeftModel

    training = make_training(tiny, folder, tmp_path / "out", epochs=2, first_layer=1, precision="float32")
    training.run()
    model = PeftModel.from_pretrained(load_base(str(tiny)).model, str(tmp_path / "out")).eval()
    tokens = torch.tensor([[1, 5, 6, 7, 8]])
    ours = training.student.model.eval()(input_ids=tokens).logits
    theirs = model(input_ids=tokens).logits
    torch.testing.assert_close(theirs, ours, rtol=0.01, atol=0.01)
    assert (theirs - load_base(str(tiny)).model(input_ids=tokens).logits).abs().max() > 0.1
    assert {name.split(".")[4] for name in training.student.weights} == {"1"}


def test_an_interrupted_run_continues_exactly(tiny: Path, folder: Path, tmp_path: Path) -> None:
    make_training(tiny, folder, tmp_path / "whole", epochs=2).run()
    interrupt(make_training(tiny, folder, tmp_path / "out", epochs=2), after=3)
    assert not (tmp_path / "out" / "training.json").exists()
    steps: list[int] = []
    make_training(tiny, folder, tmp_path / "out", epochs=2).run(
        resume=True, report=lambda step: steps.append(step.step)
    )
    assert steps == list(range(4, 11))
    name = "adapter_model.safetensors"
    assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    logs = [[line["loss"] for line in read_log(tmp_path / run)] for run in ("out", "whole")]
    assert logs[0] == logs[1]
    assert not [path for path in (tmp_path / "out").iterdir() if path.is_dir()]


def test_a_run_interrupted_before_its_first_step_is_resumed(tiny: Path, folder: Path, tmp_path: Path) -> None:
    def stop(_: Path) -> dict[str, float]:
        raise KeyboardInterrupt

    first = make_training(tiny, folder, tmp_path / "out", evaluate_every=100)
    first.evaluate = stop
    with pytest.raises(KeyboardInterrupt):
        first.run()
    description = make_training(tiny, folder, tmp_path / "out", evaluate_every=100).run(resume=True)
    assert [one["step"] for one in description["validation"]] == [0, 5]


def test_a_run_names_the_sources_of_its_examples(tiny: Path, folder: Path, tmp_path: Path) -> None:
    description = make_training(tiny, folder, tmp_path / "out", weights={"yes_no": 0}, max_steps=1).run()
    assert description["sources"] == {"made (CC0-1.0)": 12}
    assert description["examples"] == {"reading": 12}


def test_what_has_changed_is_not_resumed(tiny: Path, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no checkpoint to resume"):
        make_training(tiny, folder, tmp_path / "out").run(resume=True)
    interrupt(make_training(tiny, folder, tmp_path / "out"))
    with pytest.raises(UserError, match="contains a training run"):
        make_training(tiny, folder, tmp_path / "out").run()
    with pytest.raises(UserError, match=r"seed = 0, not 1"):
        make_training(tiny, folder, tmp_path / "out", seed=1).run(resume=True)
    lines = (folder / "examples.jsonl").read_text().splitlines(keepends=True)
    (folder / "examples.jsonl").write_text("".join(lines[1:]))
    with pytest.raises(UserError, match="examples have changed"):
        make_training(tiny, folder, tmp_path / "out").run(resume=True)
    (folder / "examples.jsonl").write_text("".join(lines))
    make_training(tiny, folder, tmp_path / "out", threads=1, checkpoint_minutes=1).run(resume=True)


def test_training_goes_on_from_an_adapter(tiny: Path, folder: Path, tmp_path: Path) -> None:
    first = make_training(tiny, folder, tmp_path / "first", epochs=3)
    description = first.run()
    second = make_training(tiny, folder, tmp_path / "second", resume_adapter=str(tmp_path / "first"))
    for name, weight in first.student.weights.items():
        torch.testing.assert_close(second.student.weights[name], weight, rtol=1e-3, atol=1e-4)
    assert second.student.resumed_sha256 == description["files"]["adapter_model.safetensors"]
    with pytest.raises(UserError, match="rank 4 and alpha 8, not 8 and 8"):
        make_training(tiny, folder, tmp_path / "other", rank=8, resume_adapter=str(tmp_path / "first"))
    with pytest.raises(UserError, match="does not fit"):
        make_training(tiny, folder, tmp_path / "other", first_layer=1, resume_adapter=str(tmp_path / "first"))


def test_a_run_ends_at_its_time(tiny: Path, folder: Path, tmp_path: Path) -> None:
    settings = make_settings(batch_size=4, hours=1, epochs=50, warmup_steps=0)
    base = load_base(str(tiny))
    times = iter(range(0, 1_000_000, 100))  # every look at the clock is 100 s later
    data = read_data(folder, base.tokenizer, settings)
    steps: list[TrainingStep] = []
    training = Training(base, data, settings, tmp_path / "out", clock=lambda: float(next(times)))
    description = training.run(report=steps.append)
    assert 3 < len(steps) < 36
    assert (description["steps"], description["planned_steps"]) == (len(steps), training.total)
    rates = [step.learning_rate for step in steps]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < rates[0] / 3
