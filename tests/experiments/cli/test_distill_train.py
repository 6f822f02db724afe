"""`verihop distill train` on a tiny model."""

import builtins
import json
from pathlib import Path
from typing import Any

import pytest

from experiments.cli.distill.training_progress import TrainingProgress
from optimizers.distill.examples import write_examples
from tests.tiny_llama import make_examples, write_tiny_llama

pytest.importorskip("peft", reason="the extra [train] is not installed")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    write_tiny_llama(folder)
    return folder


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    write_examples(tmp_path / "data" / "examples.jsonl", make_examples())
    return tmp_path / "data"


def test_train_writes_an_adapter_and_says_what_comes_next(
    verihop: Any, tiny: Path, examples: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    code, shown, err = verihop(
        "distill", "train", examples, "--base", tiny, "-o", out, "--epochs", 3, "--batch-size", 4, "--threads", 1
    )
    assert code == 0, err
    assert "15 steps, " in shown
    assert "validation loss reading: " in shown
    assert "f1[reading]: " in shown
    assert "18 examples, 15 steps, 3.00 epochs, " in err
    assert "Measuring on the validation examples" in err
    assert f"Next: verihop ask --program cot --lm embedded:{out} 'your question'" in err
    description = json.loads((out / "training.json").read_text())
    assert description["settings"]["base"] == str(tiny)
    assert description["examples"] == {"reading": 12, "yes_no": 6}
    assert (out / "adapter_config.json").exists()


def test_the_estimate_trains_nothing(verihop: Any, tiny: Path, examples: Path, tmp_path: Path) -> None:
    arguments = ("distill", "train", examples, "--base", tiny, "-o", tmp_path / "out", "--max-steps", 2, "--estimate")
    code, shown, _ = verihop(*arguments, "--json", "--quiet")
    assert code == 0
    assert json.loads(shown)["steps"] == 2
    assert not (tmp_path / "out").exists()
    assert "18 examples, 2 steps, " in verihop(*arguments)[1]


def test_ctrl_c_leaves_a_checkpoint_that_is_resumed(
    verihop: Any, tiny: Path, examples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("distill", "train", examples, "--base", tiny, "-o", tmp_path / "out", "--json", "--quiet")

    def interrupt(self: TrainingProgress, step: Any) -> None:
        if step.step == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TrainingProgress, "add", interrupt)
        code, _, err = verihop(*arguments)
    assert (code, "Resume with the same command and --resume" in err) == (130, True)
    assert [path.name for path in (tmp_path / "out").glob("checkpoint-*")] == ["checkpoint-0000002"]
    code, _, err = verihop(*arguments, "--rank", 8, "--resume")
    assert (code, len(err.strip().splitlines())) == (2, 1)
    assert "rank = 16, not 8" in err
    code, shown, err = verihop(*arguments, "--resume")
    assert code == 0, err
    assert json.loads(shown)["steps"] == 3
    assert "is complete" in verihop(*arguments, "--resume")[2]


MISTAKES = {
    "no folder": (["missing"], "No file 'missing'"),
    "no such base": (["DATA", "--base", "missing/folder"], "No LM 'missing/folder' to train"),
    "no such file": (["DATA", "--base", "gguf:missing.gguf"], "No GGUF file 'missing.gguf'"),
    "method": (["DATA", "--method", "magic"], "Training setting 'method'"),
    "weight": (["DATA", "--weight", "reading"], "--weight takes skill=number, got 'reading'"),
    "unknown skill": (["DATA", "--weight", "glory=2"], "Unknown skill 'glory'. Choose from: reading, yes_no"),
    "layer": (["DATA", "--layers", "2"], "The LM has 2 layers"),
    "too long": (["DATA", "--max-tokens", "5"], "are longer than 5 tokens"),
    "device": (["DATA", "--device", "abacus"], "Unknown device 'abacus'"),
    "adapter": (["DATA", "--resume-adapter", "missing"], "'missing' holds no LoRA adapter"),
    "adapter of another": (["DATA", "--resume-adapter", "embedded"], "was trained on 'embedded', which is not the LM"),
    "nothing to resume": (["DATA", "--resume"], "holds no checkpoint to resume"),
    "best of one": (["DATA", "--keep-best", "f1"], "after how many steps"),
}


@pytest.mark.parametrize("name", sorted(MISTAKES))
def test_a_mistake_is_one_line_and_code_2(
    name: str, verihop: Any, tiny: Path, examples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # the variable is read at import
    words, message = MISTAKES[name]
    words = [str(examples) if word == "DATA" else word for word in words]
    base = [] if "--base" in words else ["--base", tiny]
    code, shown, err = verihop("distill", "train", *words, *base, "-o", tmp_path / "out", "--quiet")
    assert (code, shown) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_a_missing_package_names_the_extra(
    verihop: Any, tiny: Path, examples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without_peft(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "peft":
            raise ImportError("No module named 'peft'")
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without_peft)
    code, _, err = verihop("distill", "train", examples, "--base", tiny, "-o", tmp_path / "out")
    assert (code, "pip install 'verihop[train]'" in err, len(err.strip().splitlines())) == (2, True, 1)
