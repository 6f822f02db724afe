"""`verihop distill train` on a tiny model."""

import builtins
import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from experiments.pipeline.progress import TrainingProgress
from optimizers.distill.examples import write_examples
from programs.lms.weights.adapter import Adapter
from programs.lms.weights.choice import find_base, load
from tests.tiny_llama import make_examples, write_servable_llama

pytest.importorskip("peft", reason="the extra [train] is not installed")


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    write_examples(tmp_path / "data" / "examples.jsonl", make_examples())
    return tmp_path / "data"


@pytest.mark.slow
def test_train_writes_an_adapter_and_says_what_it_does(verihop, tiny, examples, tmp_path):
    out = tmp_path / "out"
    code, shown, err = verihop(
        "distill", "train", examples, "--base", tiny, "-o", out, "--epochs", 3, "--batch-size", 4, "--threads", 1
    )
    assert code == 0, err
    assert "15 steps, " in shown
    assert "validation loss reading: " in shown
    assert "f1[reading]: " in shown
    assert "18 examples, 15 steps, 3.00 epochs, " in err
    assert "Measuring ..." in err
    assert f"--lm embedded:{out} will not serve it. {str(tiny)!r} has other tokens than SmolLM2" in err
    assert "Next:" not in err
    description = json.loads((out / "training.json").read_text())
    assert description["settings"]["base"] == str(tiny)
    assert description["examples"] == {"reading": 12, "yes_no": 6}
    assert (out / "adapter_config.json").exists()


def test_the_estimate_trains_nothing(verihop, tiny, examples, tmp_path):
    arguments = ("distill", "train", examples, "--base", tiny, "-o", tmp_path / "out", "--max-steps", 2, "--estimate")
    code, shown, _ = verihop(*arguments, "--json", "--quiet")
    assert code == 0
    assert json.loads(shown)["steps"] == 2
    assert not (tmp_path / "out").exists()
    assert "18 examples, 2 steps, " in verihop(*arguments)[1]
    without = [word for word in arguments if word not in ("-o", tmp_path / "out")]
    assert "18 examples, 2 steps, " in verihop(*without)[1]
    code, _, err = verihop(*without[:-1])
    assert (code, "--out FOLDER. Only --estimate needs none." in err) == (2, True)


@pytest.mark.slow
def test_ctrl_c_leaves_a_checkpoint_that_is_resumed(verihop, tiny, examples, tmp_path, monkeypatch):
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


def test_a_base_in_a_relative_folder_is_found_from_everywhere(verihop, tiny, examples, tmp_path, monkeypatch):
    shutil.copytree(tiny, tmp_path / "my base")
    monkeypatch.chdir(tmp_path)
    argv = ["verihop", "distill", "train", str(examples), "--base", "my base", "-o", "out", "--max-steps", "1"]
    monkeypatch.setattr("sys.argv", argv)
    assert verihop(*argv[1:], "--quiet", "--json")[0] == 0
    for name, key in (("adapter_config.json", "base_model_name_or_path"), ("training.json", "base")):
        assert json.loads((tmp_path / "out" / name).read_text())[key] == str(tmp_path / "my base")
    said = json.loads((tmp_path / "out" / "training.json").read_text())["command"]
    assert shlex.split(said)[4:6] == ["--base", "my base"]
    monkeypatch.chdir(tiny)
    assert find_base(Adapter(tmp_path / "out")) == tmp_path / "my base"


@pytest.mark.slow
def test_what_can_be_served_is_asked_next(verihop, examples, tmp_path, monkeypatch):
    base, out = tmp_path / "base", tmp_path / "out"
    write_servable_llama(base)
    monkeypatch.chdir(tmp_path)
    code, _, err = verihop("distill", "train", examples, "--base", base, "-o", out, "--max-steps", 1,
                           "--metric-examples", 0)  # fmt: skip
    assert code == 0, err
    assert f"Next: verihop demo --lm embedded:{out}\n" in err  # there is no index
    assert "will not serve it" not in err
    assert load(out).shape.layers == 1


@pytest.mark.slow
def test_the_best_weights_are_asked_next(verihop, examples, tmp_path, monkeypatch):
    base, out = tmp_path / "base", tmp_path / "out"
    write_servable_llama(base)
    monkeypatch.chdir(tmp_path)
    code, shown, err = verihop("distill", "train", examples, "--base", base, "-o", out, "--max-steps", 1, "--quiet",
                               "--metric-examples", 0, "--evaluate-every", 1, "--keep-best", "loss")  # fmt: skip
    assert code == 0, err
    best = json.loads((out / "training.json").read_text())["best"]
    assert f"best by loss: step {best['step']} ({best['value']:.3f}), in {out / 'best'}\n" in shown
    assert f"Next: verihop demo --lm embedded:{out / 'best'}\n" in err
    assert load(out / "best").shape.layers == 1


def test_a_range_that_is_said_is_the_one_that_holds(verihop, examples, tmp_path):
    _, shown, _ = verihop("distill", "train", "--help")
    for option in ("--epochs", "--hours"):
        said = " ".join(shown.partition(f"{option} <float>")[2].partition("\n  --")[0].split())
        assert ("more than 0" in said, "at least 0" in said) == (True, False)
        code, _, err = verihop("distill", "train", examples, "-o", tmp_path / "out", option, 0)
        assert (code, f"Training setting '{option[2:]}': input should be greater than 0" in err) == (2, True), err


def test_what_cannot_be_served_is_said_before_it_is_trained(verihop, tiny, examples, tmp_path):
    import torch
    import transformers

    base, out = tmp_path / "base", tmp_path / "out"
    shutil.copytree(tiny, base, ignore=shutil.ignore_patterns("*.safetensors", "config.json", "generation*"))
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = transformers.Qwen2Config(vocab_size=64, num_hidden_layers=2, eos_token_id=2, pad_token_id=2, **sizes)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(base)
    code, _, err = verihop("distill", "train", examples, "--base", base, "-o", out, "--estimate", "--max-steps", 1)
    assert (code, f"--lm embedded:{out} will not serve it" in err, "model_type 'qwen2'" in err) == (0, True, True)
    code, _, err = verihop("distill", "train", examples, "--base", base, "-o", out, "--max-steps", 1, "--quiet")
    assert (code, "Next:" in err) == (0, False)


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
    "adapter of another": (
        ["DATA", "--resume-adapter", "embedded", "--rank", "32", "--alpha", "64"],
        "was trained on 'embedded', which is not the LM",
    ),
    "nothing to resume": (["DATA", "--resume"], "holds no checkpoint to resume"),
    "best of one": (["DATA", "--keep-best", "f1"], "after how many steps"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MISTAKES))
def test_a_mistake_is_one_line_and_code_2(name, verihop, tiny, examples, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # the variable is read at import
    words, message = MISTAKES[name]
    words = [str(examples) if word == "DATA" else word for word in words]
    base = [] if "--base" in words else ["--base", tiny]
    code, shown, err = verihop("distill", "train", *words, *base, "-o", tmp_path / "out", "--quiet")
    assert (code, shown) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1


BEFORE_THE_BASE = {
    "no folder": ("all", ["missing"], "No file 'missing'"),
    "no file": ("all", ["."], "No file 'examples.jsonl'"),
    "unknown skill": ("all", ["DATA", "--weight", "glory=2"], "Unknown skill 'glory'"),
    "unknown metric": (
        "all",
        ["DATA", "--keep-best", "glory", "--evaluate-every", 1],
        "Unknown metric 'glory'. Choose from: em, em[reading], em[yes_no], f1, f1[reading], f1[yes_no], loss.",
    ),
    "no replies": (
        "all",
        ["DATA", "--keep-best", "f1[reading]", "--evaluate-every", 1, "--metric-examples", 0],
        "cannot be kept by 'f1[reading]': no validation example is answered",
    ),
    "no validation": (
        "train",
        ["DATA", "--keep-best", "loss", "--evaluate-every", 1],
        "The best weights cannot be kept by 'loss': no example is held back for validation. Make or mix",
    ),
}


@pytest.mark.parametrize("name", sorted(BEFORE_THE_BASE))
def test_what_the_examples_or_options_lack_is_said_before_the_base_is_loaded(
    name, verihop, examples, tmp_path, monkeypatch
):
    splits, words, message = BEFORE_THE_BASE[name]
    if splits == "train":
        without_validation(examples)
    monkeypatch.chdir(tmp_path)
    words = [examples if word == "DATA" else word for word in words]
    code, shown, err = verihop("distill", "train", *words, "--base", "missing/folder", "-o", tmp_path / "out")
    assert (code, shown, message in err, len(err.strip().splitlines())) == (2, "", True, 1), err


def without_validation(folder: Path) -> None:
    """Leave the examples for training alone."""
    write_examples(folder / "examples.jsonl", [example for example in make_examples() if example.split == "train"])


def test_that_nothing_will_be_measured_is_said(verihop, tiny, examples, tmp_path):
    said = "Note: nothing will be measured: no example is held back for validation."
    arguments = ("distill", "train", examples, "--base", tiny, "-o", tmp_path / "out", "--max-steps", 1, "--quiet")
    assert said not in verihop(*arguments, "--estimate")[2]
    without_validation(examples)
    code, _, err = verihop(*arguments)
    assert (code, said in err) == (0, True), err


def test_validation_examples_that_are_all_too_long_cannot_choose_the_best(verihop, tiny, examples, tmp_path):
    short, other = make_examples()[1:3]
    long = other.model_copy(update={"completion": "red " * 300, "split": "validation"})
    write_examples(examples / "examples.jsonl", [short.model_copy(update={"split": "train"}), long])
    code, _, err = verihop("distill", "train", examples, "--base", tiny, "-o", tmp_path / "out", "--quiet",
                           "--max-tokens", 200, "--keep-best", "loss", "--evaluate-every", 1)  # fmt: skip
    assert (code, "left out: 1 of reading" in err, "cannot be kept by 'loss'" in err) == (2, True, True), err


def test_a_missing_package_names_the_extra(verihop, tiny, examples, tmp_path, monkeypatch):
    real = builtins.__import__

    def without_peft(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "peft":
            raise ImportError("No module named 'peft'")
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without_peft)
    code, _, err = verihop("distill", "train", examples, "--base", tiny, "-o", tmp_path / "out")
    assert (code, "pip install 'verihop[train]'" in err, len(err.strip().splitlines())) == (2, True, 1)
