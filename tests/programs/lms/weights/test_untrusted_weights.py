"""Adapters and folders that are damaged, of another kind or of another model get one line with the cure."""

import dataclasses
import json
import math

import numpy as np
import pytest

from programs.lms.weights import choice
from programs.lms.weights.adapter import Adapter
from programs.lms.weights.export import tokenizer
from programs.lms.weights.llama import Shape
from programs.lms.weights.sources import folder_source
from signatures.common.errors import UserError
from tests.programs.lms.weights.made import SHAPE, SMALL, adapter_config, config, factors, make_adapter, make_model

UP_A = "base_model.model.model.layers.1.mlp.up_proj.lora_A.weight"
UP_B = UP_A.replace("lora_A", "lora_B")


def merged(folder) -> None:
    """Read and merge everything, as the first use does."""
    adapter = Adapter(folder)
    adapter.check(SMALL)
    for name, size in SMALL.tensors().items():
        adapter.merge(name, np.ones(size, np.float32))


def refused(folder, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        merged(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"r": 0}, "r is 0; it must be a positive number"),
        ({"r": 10**9}, "r is .*between 1 and 1024"),
        ({"r": 2.5}, "whole number"),
        ({"r": "4"}, "r is '4'"),
        ({"lora_alpha": 10**400}, "lora_alpha is 1000"),
        ({"layers_to_transform": 2.5}, "layers_to_transform must be a list"),
        ({"layers_to_transform": [{}]}, "layers_to_transform must be a list"),
        ({"r": 8}, "has the shape .* its base needs"),
        ({"lora_alpha": -1}, "lora_alpha is -1"),
        ({"lora_alpha": math.nan}, "lora_alpha is nan"),
        ({"lora_alpha": 1e30}, "times as large as its weights. Check lora_alpha"),
        ({"lora_alpha": 1e308}, "Check lora_alpha"),
        ({"peft_type": "LOHA"}, "'LOHA' cannot be merged, only LORA"),
        ({"use_dora": True}, "use_dora.* Save the merged model instead"),
        ({"bias": "all"}, "bias"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"init_lora_weights": "pissa"}, "pissa"),
        ({"alpha_pattern": {"(a+)+$": 1}}, "without regular expressions"),
        ({"alpha_pattern": [1]}, "alpha_pattern"),
        ({"rank_pattern": {"up_proj": -2}}, "r is -2"),
        ({"layers_to_transform": [0, 1]}, "layer 0 has no .*copy the adapter again"),
        ({"alpha_pattern": {"mlp.upproj": 4}}, "alpha_pattern names 'mlp.upproj', which no module of its base has"),
        ({"rank_pattern": {"base_model.model.model.layers.1.mlp.up_proj": 2}}, "rank_pattern names 'base_model"),
        ({"alpha_pattern": {"layers.2.mlp.up_proj": 4}}, "alpha_pattern names 'layers.2.mlp.up_proj'"),
        ({"target_modules": ["up_proj", "gate"]}, "layer 1 has no gate, which it lists"),
    ],
)
def test_a_configuration_that_cannot_be_merged_is_refused(changed, message, tmp_path) -> None:
    refused(make_adapter(tmp_path / "adapter", **changed), message)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({UP_A: np.full((4, 64), np.nan, np.float32)}, "not numbers. The training diverged"),
        ({UP_B: np.full((96, 4), np.inf, np.float32)}, "infinite"),
        ({UP_A: np.ones((4, 65), np.float32)}, r"\(4, 65\), its base needs \(4, 64\)"),
        ({UP_A: np.ones((4, 64), np.int64)}, "type I64"),
        ({UP_A.replace("up_proj", "new_proj"): np.ones((4, 64), np.float32)}, "Train with target modules among"),
        ({"base_model.model.lm_head.lora_A.weight": np.ones((4, 64), np.float32)}, "belongs to no linear map"),
        ({UP_A.replace(".1.", ".9."): np.ones(1, np.float32)}, "only one of its two factors"),
        (
            {name.replace(".1.", ".9."): np.ones((4, 64), np.float32) for name in (UP_A, UP_B)},
            "it has layer 9, but its base has 2",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_refused(tensors, message, tmp_path) -> None:
    refused(make_adapter(tmp_path / "adapter", tensors={**factors(SMALL), **tensors}), message)


def test_an_adapter_without_tensors_is_refused(tmp_path) -> None:
    refused(make_adapter(tmp_path / "adapter", tensors={}), "it has no tensors")


@pytest.mark.parametrize("content", [b"", b"\x80\x04pickle", b"\xff" * 8 + b"{}", None])
def test_a_file_that_is_not_safetensors_is_refused(content, tmp_path) -> None:
    folder = make_adapter(tmp_path / "adapter")
    path = folder / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:-5] if content is None else content)
    refused(folder, "damaged or not a safetensors file.*copy it again")


def test_a_huge_tensor_that_is_not_there_allocates_nothing(tmp_path) -> None:
    header = json.dumps({"x": {"dtype": "F32", "shape": [10**6, 10**6], "data_offsets": [0, 4 * 10**12]}}).encode()
    folder = make_adapter(tmp_path / "adapter")
    (folder / "adapter_model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    refused(folder, "damaged")


@pytest.mark.parametrize("content", ["", "[]", "[" * 100_000, "{" + " " * 1_100_000 + "}"])
def test_a_configuration_that_is_not_one_is_refused(content, tmp_path) -> None:
    folder = make_adapter(tmp_path / "adapter")
    (folder / "adapter_config.json").write_text(content)
    refused(folder, "adapter_config.json")


def test_a_missing_file_is_named(tmp_path) -> None:
    folder = make_adapter(tmp_path / "adapter")
    (folder / "adapter_model.safetensors").unlink()
    refused(folder, "No file .*adapter_model.safetensors")


def test_a_folder_that_is_something_else_says_what_is_expected(tmp_path) -> None:
    with pytest.raises(UserError, match="neither adapter_config.json nor config.json. Give the folder of an adapter"):
        choice.weights(str(tmp_path))
    with pytest.raises(UserError, match="No folder .*embedded:adapters/my"):
        choice.weights(str(tmp_path / "no"))


def test_an_adapter_of_an_unknown_base_is_refused(tmp_path) -> None:
    folder = make_adapter(tmp_path / "adapter", base_model_name_or_path="meta/llama-9")
    with pytest.raises(UserError, match='meta/llama-9.*not found.*write "embedded" as base_model_name_or_path'):
        choice.weights(str(folder))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model_type": "qwen3"}, "'qwen3' is not served here.*vLLM"),
        ({"attention_bias": True}, "attention_bias"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "yarn"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"head_dim": 99}, "head_dim"),
        ({"num_hidden_layers": 10**9}, "layers = 1000000000"),
        ({"num_hidden_layers": "2"}, "layers = '2'"),
        ({"rms_norm_eps": None}, "not a number"),
        ({"num_attention_heads": 7}, "do not divide"),
        ({"hidden_size": 128}, "its config.json says"),
        ({"rope_parameters": None, "rope_scaling": "yarn"}, "yarn"),
        ({"rope_parameters": [2]}, "rope_type.*is not served here"),
        ({"max_position_embeddings": math.inf}, "not a number"),
        ({"max_position_embeddings": -5}, "context = -5"),
        ({"rms_norm_eps": math.nan}, "epsilon = nan"),
        ({"rope_parameters": {"rope_theta": -1.0}}, "rope_base = -1.0"),
    ],
)
def test_a_model_of_another_kind_is_refused(changed, message, tmp_path) -> None:
    folder = make_model(tmp_path / "model")
    (folder / "config.json").write_text(json.dumps({**config(SMALL), **changed}))
    with pytest.raises(UserError, match=message):
        folder_source(folder)


@pytest.mark.parametrize(("sizes", "name"), [({"hidden": 40}, "hidden_size"), ({"inner": 48}, "intermediate_size")])
def test_sizes_that_cannot_be_stored_with_8_bits_are_refused_when_connected(sizes, name, tmp_path) -> None:
    folder = make_model(tmp_path / "model", dataclasses.replace(SHAPE, **sizes))
    with pytest.raises(UserError, match=rf"{name}.*multiples of 32"):
        choice.weights(str(folder))


def test_a_kind_of_positions_may_be_a_word(tmp_path) -> None:
    folder = make_model(tmp_path / "model")
    old = {**config(SMALL), "rope_parameters": None, "rope_scaling": "default", "rope_theta": SMALL.rope_base}
    (folder / "config.json").write_text(json.dumps(old))
    assert folder_source(folder).shape == SMALL


def test_a_vocabulary_of_another_size_than_the_tokenizers_is_refused(tmp_path) -> None:
    folder = make_model(tmp_path / "model")
    tokenizer().save(str(folder / "tokenizer.json"))
    with pytest.raises(UserError, match=r"model' has 40 tokens, SmolLM2 has 49,152. Resize"):
        choice.load(folder)


def test_missing_sizes_weights_and_tokenizer_are_named(tmp_path) -> None:
    folder = make_model(tmp_path / "model")
    with pytest.raises(UserError, match="no tokenizer.json. Save the tokenizer"):
        choice.load(folder)
    (folder / "tokenizer.json").write_text('{"model": {"vocab": {"a": 0}}}')
    with pytest.raises(UserError, match="other tokens than SmolLM2"):
        choice.load(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match="no model.safetensors"):
        folder_source(folder)
    (folder / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(UserError, match="lacks 'num_attention_heads'"):
        folder_source(folder)


def test_sizes_must_divide() -> None:
    with pytest.raises(UserError, match="4 heads, 3 of them for keys"):
        Shape(**{**SMALL.__dict__, "kv_heads": 3})


def test_the_made_adapter_is_accepted(tmp_path) -> None:
    merged(make_adapter(tmp_path / "adapter"))
    assert adapter_config()["r"] == 4
