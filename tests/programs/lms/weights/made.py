"""Made Llama models and adapters, tiny, with random weights."""

import functools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from programs.lms.weights.export import tokenizer
from programs.lms.weights.llama import MODULES, Shape

SHAPE = Shape(
    layers=2, hidden=64, heads=4, kv_heads=2, inner=96, vocabulary=49152, context=512, rope_base=10_000.0,
    epsilon=1e-5, tied=True,
)  # fmt: skip
SMALL = Shape(**{**SHAPE.__dict__, "vocabulary": 40})


def save_tensors(path: Path, tensors: dict[str, Any]) -> None:
    from safetensors.numpy import save_file

    save_file({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, path)


def random_tensors(shape: Shape, seed: int = 0) -> dict[str, Any]:
    """Return weights that make a model with clear preferences."""
    rng = np.random.default_rng(seed)
    return {
        name: (rng.normal(0, 0.2, size) if len(size) > 1 else rng.uniform(0.5, 1.5, size)).astype(np.float32)
        for name, size in shape.tensors().items()
    }


def config(shape: Shape) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": shape.layers,
        "hidden_size": shape.hidden,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "intermediate_size": shape.inner,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": shape.context,
        "rope_parameters": {"rope_type": "default", "rope_theta": shape.rope_base},
        "rms_norm_eps": shape.epsilon,
        "tie_word_embeddings": shape.tied,
    }


@functools.cache
def _tokenizer() -> str:
    return tokenizer().to_str()


def make_model(folder: Path, shape: Shape = SMALL, seed: int = 0) -> Path:
    """Save a model as transformers does; with SmolLM2's tokenizer if its vocabulary is that large."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config(shape)))
    save_tensors(folder / "model.safetensors", random_tensors(shape, seed))
    if shape.vocabulary == SHAPE.vocabulary:
        (folder / "tokenizer.json").write_text(_tokenizer(), encoding="utf-8")
    return folder


def adapter_config(**changed: Any) -> dict[str, Any]:
    return {
        "peft_type": "LORA",
        "base_model_name_or_path": "embedded",
        "r": 4,
        "lora_alpha": 8,
        "target_modules": [module.partition(".")[2] for module in MODULES],
        "layers_to_transform": [1],
        "layers_pattern": None,
        "bias": "none",
        **changed,
    }


def factors(shape: Shape, rank: int = 4, seed: int = 1, dtype: Any = np.float32) -> dict[str, Any]:
    """Return the tensors of an adapter of layer 1."""
    rng = np.random.default_rng(seed)
    tensors = {}
    for module in MODULES:
        outputs, inputs = shape.linear(module)
        start = f"base_model.model.model.layers.1.{module}"
        tensors[f"{start}.lora_A.weight"] = rng.normal(0, 0.1, (rank, inputs)).astype(dtype)
        tensors[f"{start}.lora_B.weight"] = rng.normal(0, 0.1, (outputs, rank)).astype(dtype)
    return tensors


def make_adapter(folder: Path, shape: Shape = SMALL, tensors: dict[str, Any] | None = None, **changed: Any) -> Path:
    """Save an adapter of layer 1 as PEFT does; `changed` are fields of its configuration."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text(json.dumps(adapter_config(**changed)))
    save_tensors(folder / "adapter_model.safetensors", factors(shape) if tensors is None else tensors)
    return folder
