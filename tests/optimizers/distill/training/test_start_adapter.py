"""The adapter that a run starts from: refused unless the run computes with it as its origin did."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from optimizers.distill.training.lm.base_model import BaseModel
from optimizers.distill.training.lm.student import _check_base, adapter_folder
from signatures.common.errors import UserError
from signatures.common.files import sha256_file
from tests.optimizers.distill.training.runs import make_training

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"


@pytest.fixture
def adapter(tiny: Path, folder: Path, tmp_path: Path) -> Path:
    """Return the folder of a trained adapter."""
    make_training(tiny, folder, tmp_path / "first", max_steps=1).run()
    return tmp_path / "first"


def start(tiny: Path, folder: Path, adapter: Path) -> Any:
    return make_training(tiny, folder, adapter.parent / "second", resume_adapter=str(adapter)).student


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize(
    "special",
    [
        {"use_rslora": True},
        {"use_dora": True},
        {"alpha_pattern": {"up_proj": 99}},
        {"rank_pattern": {"up_proj": 2}},
        {"bias": "all"},
        {"init_lora_weights": "pissa"},
        {"some_new_kind": {"of": "update"}},
    ],
)
def test_an_adapter_that_is_no_plain_lora_is_refused(
    special: dict[str, Any], tiny: Path, folder: Path, adapter: Path
) -> None:
    change(adapter / CONFIG, **special)
    with pytest.raises(UserError, match=rf"\A.*is not a plain LoRA: .*{next(iter(special))}.*\Z"):
        start(tiny, folder, adapter)


def test_an_adapter_of_another_kind_is_refused(tiny: Path, folder: Path, adapter: Path) -> None:
    change(adapter / CONFIG, peft_type="IA3")
    with pytest.raises(UserError, match="is of type 'IA3', not LORA"):
        start(tiny, folder, adapter)
    (adapter / CONFIG).write_text("[1]")
    with pytest.raises(UserError, match="holds no LoRA adapter"):
        start(tiny, folder, adapter)


def test_an_adapter_without_one_of_two_factors_is_refused(tiny: Path, folder: Path, adapter: Path) -> None:
    tensors = load_file(adapter / WEIGHTS)
    lost = next(name for name in sorted(tensors) if "lora_B" in name)
    save_file({name: value for name, value in tensors.items() if name != lost}, adapter / WEIGHTS)
    with pytest.raises(UserError, match=f"without '{lost}'"):
        start(tiny, folder, adapter)


def test_an_adapter_of_another_base_is_refused(tiny: Path, folder: Path, adapter: Path, tmp_path: Path) -> None:
    assert start(tiny, folder, adapter).resumed_sha256
    change(adapter / "training.json", base_sha256="0" * 64)  # the same name, other weights
    with pytest.raises(UserError, match="which is not the LM .* or had other weights"):
        start(tiny, folder, adapter)
    (adapter / "training.json").unlink()
    assert start(tiny, folder, adapter).resumed_sha256
    change(adapter / CONFIG, base_model_name_or_path="organisation/another")
    with pytest.raises(UserError, match="was trained on 'organisation/another'"):
        start(tiny, folder, adapter)
    change(adapter / CONFIG, base_model_name_or_path=f"organisation/{tiny.name}")
    assert start(tiny, folder, adapter).resumed_sha256
    shutil.rmtree(adapter)
    with pytest.raises(UserError, match="holds no LoRA adapter"):
        start(tiny, folder, adapter)


@pytest.mark.parametrize(
    ("trained_on", "base", "same"),
    [
        ("embedded", "embedded", True),
        ("HuggingFaceTB/SmolLM2-135M-Instruct", "embedded", True),
        ("SmolLM2-135M-Instruct", "embedded", True),
        ("folders/SmolLM2-135M-Instruct", "embedded", False),
        ("embedded", "gguf:x.gguf", False),
        ("organisation/model", "folders/model/", True),
        ("organisation/model", "organisation/other", False),
    ],
)
def test_a_base_has_one_name_on_the_hub_and_another_in_a_folder(
    trained_on: str, base: str, same: bool, tmp_path: Path
) -> None:
    wanted = BaseModel(None, None, base, "hash")
    config = {"base_model_name_or_path": trained_on}
    # Hashes of safetensors and of a GGUF file cannot be compared.
    described = "folder" if base in ("embedded", "gguf:x.gguf") else "embedded"
    (tmp_path / "training.json").write_text(json.dumps({"base": described, "base_sha256": "another"}))
    if same:
        _check_base(tmp_path, config, wanted)
        return
    with pytest.raises(UserError, match="which is not the LM"):
        _check_base(tmp_path, config, wanted)


def test_the_best_weights_of_a_run_are_of_its_base(tmp_path: Path) -> None:
    (tmp_path / "best").mkdir()
    (tmp_path / "training.json").write_text(json.dumps({"base": "embedded", "base_sha256": "one"}))
    config = {"base_model_name_or_path": "embedded"}
    _check_base(tmp_path / "best", config, BaseModel(None, None, "embedded", "one"))
    with pytest.raises(UserError, match="other weights"):
        _check_base(tmp_path / "best", config, BaseModel(None, None, "embedded", "two"))
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    (tmp_path / "training.json").unlink()
    config = {"base_model_name_or_path": f"gguf:{tmp_path / 'x.gguf'}"}
    _check_base(tmp_path / "best", config, BaseModel(None, None, "embedded", sha256_file(tmp_path / "x.gguf")))
    with pytest.raises(UserError, match="other weights"):
        _check_base(tmp_path / "best", config, BaseModel(None, None, "embedded", "two"))


def test_the_shipped_adapter_has_a_name(tmp_path: Path) -> None:
    assert json.loads((adapter_folder("embedded") / CONFIG).read_text())["base_model_name_or_path"] == "embedded"
    assert adapter_folder(str(tmp_path)) == tmp_path
