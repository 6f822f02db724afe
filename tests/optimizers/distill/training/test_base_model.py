"""LMs to train from strange folders: none runs code, and damage is one line."""

import builtins
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optimizers.distill.training.lm import base_model
from optimizers.distill.training.lm.base_model import embedded_tokenizer, load_base
from signatures.common.errors import UserError

EVIL = """
from pathlib import Path
from transformers import PretrainedConfig
Path({path!r}).write_text("executed")
class C(PretrainedConfig):
    model_type = "strange"
class M: pass
"""


@pytest.fixture
def copy(tiny: Path, tmp_path: Path) -> Path:
    """Return a copy of the tiny LM's folder, to damage."""
    shutil.copytree(tiny, tmp_path / "copy")
    return tmp_path / "copy"


def test_a_folder_with_code_of_its_own_is_refused_without_a_question(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(builtins, "input", lambda text="": (asked.append(text), "y")[1])
    code = {"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M"}
    change_config(copy, model_type="strange", auto_map=code)
    (copy / "evil.py").write_text(EVIL.format(path=str(tmp_path / "executed")))
    with pytest.raises(UserError, match="No LM"):
        load_base(str(copy))
    assert asked == []
    assert not (tmp_path / "executed").exists()


def change_config(folder: Path, **values: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **values}))


def cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut weights": (cut, "No LM"),
    "no weights": (lambda folder: (folder / "model.safetensors").write_bytes(b"xx"), "No LM"),
    "config is no JSON": (lambda folder: (folder / "config.json").write_text("{"), "No LM"),
    "config of a wrong type": (lambda folder: change_config(folder, hidden_size="x"), "No LM"),
    "other shapes": (lambda folder: change_config(folder, hidden_size=64), "of other shapes than its config.json says"),
    "a layer is missing": (
        lambda folder: change_config(folder, num_hidden_layers=3),
        r"lack model\.layers\.2\.\S+ and 8 more",
    ),
}


@pytest.mark.parametrize("name", sorted(DAMAGE))
def test_a_damaged_folder_is_one_line(name: str, copy: Path) -> None:
    damage, message = DAMAGE[name]
    damage(copy)
    with pytest.raises(UserError, match=message) as raised:
        load_base(str(copy))
    assert len(str(raised.value).splitlines()) == 1


def add_adapter(folder: Path, base: Path) -> None:
    """Write an adapter of the base into a folder."""
    from peft import LoraConfig, get_peft_model

    adapter = get_peft_model(load_base(str(base)).model, LoraConfig(r=2, target_modules=["q_proj"]))
    adapter.peft_config["default"].base_model_name_or_path = str(base)
    adapter.save_pretrained(folder)


@pytest.mark.parametrize("merged", [True, False])
def test_an_adapter_is_no_base(merged: bool, tiny: Path, copy: Path) -> None:
    """Not with the weights of a base beside it either."""
    add_adapter(copy, tiny)
    if not merged:
        for name in ("config.json", "model.safetensors"):
            (copy / name).unlink()
    with pytest.raises(UserError, match=r"\A.*copy' is an adapter, not an LM\. Train its base.*\Z"):
        load_base(str(copy))


def test_an_adapter_of_the_hub_is_no_base(tiny: Path, copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_adapter(copy, tiny)
    monkeypatch.setattr(base_model, "exists", lambda *_: False)  # a name on the hub is not a folder
    with pytest.raises(UserError, match="is an adapter, not an LM"):
        load_base(str(copy))


def test_the_retries_of_the_hub_are_not_said_beside_our_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import transformers

    hub = logging.getLogger("huggingface_hub.utils._http")

    def retry(*_: Any, **__: Any) -> None:
        hub.warning("Retrying in 1s [Retry 1/5].")
        raise OSError("We couldn't connect to the hub")

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", retry)
    with pytest.raises(UserError, match="No LM 'nosuch/model' to train: We couldn't connect"):
        load_base("nosuch/model")
    assert [record.getMessage() for record in caplog.records] == []
    hub.warning("said again")
    assert [record.getMessage() for record in caplog.records] == ["said again"]


@pytest.mark.parametrize("content", [b"hello", b"GGUFxxxx", b"GGUF\x03\x00\x00\x00" + b"\xff" * 30])
def test_a_damaged_gguf_file_is_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(content)
    with pytest.raises(UserError, match=r"\A.*cannot be loaded for training.*\Z"):
        load_base(f"gguf:{tmp_path / 'x.gguf'}")


@pytest.mark.parametrize("tied", [True, False])
def test_tied_weights_are_not_missing(tied: bool, copy: Path) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    change_config(copy, tie_word_embeddings=tied)
    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(copy)).save_pretrained(copy)
    model = load_base(str(copy)).model
    assert torch.equal(model.get_input_embeddings().weight, model.lm_head.weight) is tied


def test_the_embedded_lm_is_trained_with_the_tokens_that_it_has_when_it_serves(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    from programs.lms.weights.export import tokenizer

    ours, served = embedded_tokenizer(), tokenizer()
    for text in ("a  1", "\n\n2 x", "$ 12  000", "½ ²", "<|im_start|>user\nwho?<|im_end|>\n"):
        assert ours(text, add_special_tokens=False)["input_ids"] == served.encode(text, add_special_tokens=False).ids
    messages = [{"role": "user", "content": "born 1984"}]
    text = ours.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text.endswith("<|im_start|>user\nborn 1984<|im_end|>\n<|im_start|>assistant\n")
    assert ours.eos_token == "<|im_end|>"
    ours.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again("a  1  ²")["input_ids"] == served.encode("a  1  ²").ids
    assert again.chat_template == ours.chat_template
