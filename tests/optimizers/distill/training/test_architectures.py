"""Other architectures: packed where attention is plain, else single rows; the loss is that of transformers."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from optimizers.distill.examples import Example
from optimizers.distill.training.data import encode
from optimizers.distill.training.lm.base_model import Device, load_base
from optimizers.distill.training.lm.student import Student
from optimizers.distill.training.settings import make_settings

pytestmark = pytest.mark.slow

SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "initializer_range": 0.3,
    "eos_token_id": 2,
    "pad_token_id": 2,
}
MODELS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "qwen2": ("Qwen2", SMALL, True),
    "qwen3": ("Qwen3", SMALL, True),
    "mistral": ("Mistral", {**SMALL, "sliding_window": None}, True),
    "mistral with a window": ("Mistral", {**SMALL, "sliding_window": 8}, False),
    "gemma2 with soft caps": ("Gemma2", SMALL, False),
    "phi3": ("Phi3", {**SMALL, "sliding_window": None}, True),
    "gpt2": ("GPT2", {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "eos_token_id": 2}, False),
}


def load(kind: str, tiny: Path, folder: Path) -> Any:
    shutil.copytree(tiny, folder, ignore=shutil.ignore_patterns("*.safetensors", "config.json", "generation*"))
    name, settings, _ = MODELS[kind]
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, f"{name}Config")(**settings))
    model.save_pretrained(folder)
    return load_base(str(folder))


@pytest.mark.parametrize("kind", sorted(MODELS))
def test_the_loss_of_a_batch_is_that_of_transformers(
    kind: str, tiny: Path, examples: list[Example], tmp_path: Path
) -> None:
    base = load(kind, tiny, tmp_path / "model")
    encoded = encode(examples[:6], base.tokenizer)
    base.model.eval()  # GPT-2 has dropout
    expected, replies = 0.0, 0
    for one in encoded:
        tokens = torch.tensor([[*one.prompt, *one.reply]])
        labels = tokens.clone()
        labels[:, : len(one.prompt)] = -100
        expected += base.model(input_ids=tokens, labels=labels).loss.item() * len(one.reply)
        replies += len(one.reply)
    method = "full" if kind == "gpt2" else "lora"
    student = Student(base, make_settings(method=method), Device("cpu", bfloat16=False))
    rows = student.rows(encoded)
    assert student.packs == MODELS[kind][2]
    assert sum(student.losses(row)[0].item() for row in rows) == pytest.approx(expected / replies, rel=1e-4)
