"""An adapter changes the maps it names and nothing else, and a file that fits no model is refused in one line."""

import numpy as np
import pytest
from safetensors.numpy import save_file

from corpora.encoders.low_rank import ABOUT, LowRank, save
from signatures.common.errors import UserError

MAP = "encoder.layer.0.output.dense"


def factors(rank=2, inputs=4, outputs=3, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(rank, inputs)), rng.normal(size=(outputs, rank))
    return {f"{MAP}.lora_A.weight": a.astype(np.float16), f"{MAP}.lora_B.weight": b.astype(np.float16)}


def weights():
    return {f"{MAP}.weight": np.ones((3, 4), np.float32), f"{MAP}.bias": np.zeros(3, np.float32)}


def adapter(path, tensors, **about):
    save(path, tensors, **{"factor": 2.0, "base": "of a model", **about})
    return LowRank(path)


def test_a_map_becomes_its_weights_and_the_scaled_product_of_the_factors(tmp_path):
    tensors, before = factors(), weights()
    merged = adapter(tmp_path / "a.safetensors", tensors).merged(before)
    a, b = (tensors[f"{MAP}.lora_{part}.weight"].astype(np.float32) for part in "AB")
    np.testing.assert_allclose(merged[f"{MAP}.weight"], before[f"{MAP}.weight"] + 2 * b @ a, rtol=1e-6)
    assert merged[f"{MAP}.bias"] is before[f"{MAP}.bias"]
    assert (before[f"{MAP}.weight"] == 1).all()


def test_the_hash_changes_with_the_factors_and_with_what_scales_them(tmp_path):
    made = [
        adapter(tmp_path / f"{number}", tensors, **about).hash
        for number, (tensors, about) in enumerate(
            [(factors(), {}), (factors(seed=1), {}), (factors(), {"factor": 1.0})]
        )
    ]
    assert len(set(made)) == 3
    assert adapter(tmp_path / "again", factors()).hash == made[0]


@pytest.mark.parametrize(
    ("tensors", "why"),
    [
        (factors(inputs=5), "factors of the shapes"),
        ({k: v for k, v in factors().items() if "lora_A" in k}, "no second factor"),
        ({k: v for k, v in factors().items() if "lora_B" in k}, "not pairs"),
        ({k.replace("output", "other"): v for k, v in factors().items()}, "no linear map"),
        ({k: v * np.float16(np.inf) for k, v in factors().items()}, "not numbers"),
        ({**factors(), "more": np.ones(2, np.float32)}, "not pairs"),
        ({}, "or none"),
    ],
)
def test_tensors_that_fit_no_map_are_refused(tmp_path, tensors, why):
    with pytest.raises(UserError, match=f"{why}.*train it again") as error:
        adapter(tmp_path / "a.safetensors", tensors).merged(weights())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("about", [{"factor": "2"}, {"factor": float("1e9")}, {"base": ""}, {"base": 3}, {"factor": 2}])
def test_an_adapter_that_says_no_factor_or_base_is_refused(tmp_path, about):
    with pytest.raises(UserError, match="no factor and base"):
        adapter(tmp_path / "a.safetensors", factors(), **about)


def test_a_file_that_is_no_adapter_is_refused(tmp_path):
    path = tmp_path / "a.safetensors"
    with pytest.raises(UserError, match=r"a\.safetensors cannot be used"):
        LowRank(path)
    path.write_bytes(b"\x80\x04pickle")
    with pytest.raises(UserError, match=r"a\.safetensors cannot be used"):
        LowRank(path)
    save_file(factors(), path, metadata={ABOUT: "no JSON"})
    with pytest.raises(UserError, match=r"a\.safetensors cannot be used"):
        LowRank(path)
