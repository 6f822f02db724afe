"""An adapter changes the weights as PEFT does, also in GGUF, whose rows have another order."""

import json

import numpy as np
import pytest

from programs.lms.weights import choice
from programs.lms.weights.adapter import Adapter
from programs.lms.weights.gguf_files import read_metadata, write_gguf
from programs.lms.weights.llama import MODULES, from_gguf, to_gguf
from programs.lms.weights.sources import folder_source, gguf_source
from tests.programs.lms.weights.made import SMALL, factors, make_adapter, make_model

TARGETS = [module.partition(".")[2] for module in MODULES]
UP = "model.layers.1.mlp.up_proj.weight"


def update(tmp_path, name: str = UP, **changed):
    """Return what an adapter adds to weights of zeros and a one."""
    weights = np.zeros(SMALL.tensors()[name], np.float32)
    weights[0, 0] = 1.0
    return Adapter(make_adapter(tmp_path / "adapter", **changed)).merge(name, weights) - weights


def product(module: str = "mlp.up_proj"):
    parts = factors(SMALL)
    start = f"base_model.model.model.layers.1.{module}.lora"
    return parts[f"{start}_B.weight"] @ parts[f"{start}_A.weight"]


@pytest.mark.parametrize(
    ("changed", "scale"),
    [
        ({}, 2.0),
        ({"lora_alpha": 3}, 0.75),
        ({"use_rslora": True}, 4.0),
        ({"alpha_pattern": {"up_proj": 4}}, 1.0),
        ({"alpha_pattern": {"layers.1.mlp.up_proj": 4, "up_proj": 8}}, 1.0),
        ({"alpha_pattern": {"model.layers.1.mlp.up_proj": 4}}, 1.0),
        ({"alpha_pattern": {"odel.layers.1.mlp.up_proj": 4, "model.layers.0.mlp.up_proj": 4}}, 2.0),
        ({"alpha_pattern": {"down_proj": 4, "0.mlp.up_proj": 4, "p_proj": 4}}, 2.0),
        ({"layers_pattern": "layers", "layers_to_transform": 1}, 2.0),
    ],
)
def test_the_update_is_scaled_as_configured(changed, scale, tmp_path) -> None:
    assert update(tmp_path, **changed) == pytest.approx(scale * product(), abs=1e-5)


@pytest.mark.parametrize("pattern", ["up_proj", "model.layers.1.mlp.up_proj"])
def test_a_rank_of_its_own_scales_a_module(pattern, tmp_path) -> None:
    tensors = factors(SMALL)
    other = factors(SMALL, rank=2)
    tensors.update({name: tensor for name, tensor in other.items() if "up_proj" in name})
    parts = [other[f"base_model.model.model.layers.1.mlp.up_proj.lora_{factor}.weight"] for factor in "BA"]
    made = update(tmp_path, tensors=tensors, rank_pattern={pattern: 2})
    assert made == pytest.approx(4.0 * parts[0] @ parts[1], abs=1e-5)


def test_half_precision_is_widened(tmp_path) -> None:
    assert update(tmp_path, tensors=factors(SMALL, dtype=np.float16)) == pytest.approx(2 * product(), abs=1e-3)


def test_bfloat16_is_widened(tmp_path) -> None:
    import torch
    from safetensors.torch import save_file

    folder = make_adapter(tmp_path / "adapter")
    halves = {name: torch.from_numpy(tensor).bfloat16() for name, tensor in factors(SMALL).items()}
    save_file(halves, folder / "adapter_model.safetensors")
    weights = np.ones(SMALL.tensors()[UP], np.float32)
    assert Adapter(folder).merge(UP, weights) - weights == pytest.approx(2 * product(), abs=2e-2)
    start = "base_model.model.model.layers.1.mlp.up_proj.lora"
    exact = (halves[f"{start}_B.weight"].float() @ halves[f"{start}_A.weight"].float()).numpy()
    assert Adapter(folder).merge(UP, weights) - weights == pytest.approx(2 * exact, abs=1e-5)


def test_other_weights_stay(tmp_path) -> None:
    adapter = Adapter(make_adapter(tmp_path / "adapter"))
    for name in ("model.layers.0.mlp.up_proj.weight", "model.norm.weight", "model.embed_tokens.weight"):
        weights = np.ones(3, np.float32)
        assert adapter.merge(name, weights) is weights


def test_gguf_interleaves_the_halves_of_each_head() -> None:
    rows = np.arange(SMALL.hidden, dtype=np.float32)[:, None]
    there = to_gguf("model.layers.0.self_attn.q_proj.weight", rows, SMALL)[:, 0]
    assert there[:20].tolist() == [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15, 16, 24, 17, 25]
    keys = to_gguf("model.layers.0.self_attn.k_proj.weight", rows[:32], SMALL)[:, 0]
    assert keys[:4].tolist() == [0, 8, 1, 9]
    assert to_gguf("model.layers.0.self_attn.v_proj.weight", rows, SMALL) is rows


@pytest.mark.parametrize("name", ["model.layers.1.self_attn.q_proj.weight", "model.layers.1.self_attn.k_proj.weight"])
def test_the_two_layouts_are_inverse(name) -> None:
    tensor = np.random.default_rng(0).normal(size=SMALL.tensors()[name]).astype(np.float32)
    assert not np.array_equal(to_gguf(name, tensor, SMALL), tensor)
    assert np.array_equal(from_gguf(name, to_gguf(name, tensor, SMALL), SMALL), tensor)


@pytest.mark.parametrize(("file_type", "code", "error"), [("f16", 1, 1e-3), ("q8_0", 7, 2e-2)])
def test_a_written_file_reads_back_and_keeps_the_metadata(file_type, code, error, tmp_path) -> None:
    source = folder_source(make_model(tmp_path / "model"))
    write_gguf(tmp_path / "x.gguf", source, choice.weights_path(), file_type)
    again = gguf_source(tmp_path / "x.gguf")
    assert again.shape.__dict__ == pytest.approx(SMALL.__dict__)
    for name in SMALL.tensors():
        np.testing.assert_allclose(again.read(name), source.read(name), rtol=0, atol=error)
    names = ("general.file_type", "tokenizer.chat_template", "general.license", "tokenizer.ggml.eos_token_id")
    written = read_metadata(tmp_path / "x.gguf", *names)
    assert written == [code, *read_metadata(choice.weights_path(), *names)[1:]]


@pytest.mark.slow
def test_merged_weights_have_the_logits_of_peft(tmp_path) -> None:
    """Also after a round through GGUF, as transformers reads it."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    folder = make_model(tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    lora = LoraConfig(
        r=4,
        lora_alpha=8,
        target_modules=TARGETS,
        use_rslora=True,
        alpha_pattern={"model.layers.1.self_attn.q_proj": 6, "up_proj": 3},
    )
    trained = get_peft_model(model, lora)
    for name, parameter in trained.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_(0, 0.1)
    trained.save_pretrained(tmp_path / "adapter")
    ids = torch.arange(12)[None]
    with torch.no_grad():
        wanted = trained(input_ids=ids).logits
    source = folder_source(folder).with_adapter(Adapter(tmp_path / "adapter"))
    write_gguf(tmp_path / "x.gguf", source, choice.weights_path(), "f16")
    merged = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    read = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="x.gguf", dtype=torch.float32)
    merged.load_state_dict({name: torch.from_numpy(source.read(name)) for name in SMALL.tensors()}, strict=False)
    with torch.no_grad():
        assert merged(input_ids=ids).logits.numpy() == pytest.approx(wanted.numpy(), abs=1e-4)
        assert read(input_ids=ids).logits.numpy() == pytest.approx(wanted.numpy(), abs=2e-2)
        spread = wanted.std().item()
    assert spread > 0.3  # so that the tolerance means something
    assert json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())["use_rslora"] is True
