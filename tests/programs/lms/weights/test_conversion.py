"""A converted model is made once, whole or not at all, and made again if it is damaged."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from programs.lms.weights import choice
from signatures.common.errors import UserError
from tests.programs.lms.weights.made import SHAPE, factors, make_adapter, make_model


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Return what was written, with a runtime that copies the GGUF file."""
    import openvino_genai

    written: list[str] = []

    class Pipeline:
        def __init__(self, path: str, device: str, **settings: bool):
            from pathlib import Path

            Path(path).with_name("openvino_model.bin").write_bytes(Path(path).read_bytes())

    monkeypatch.setenv("VERIHOP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(openvino_genai, "LLMPipeline", Pipeline)
    choice.is_whole.cache_clear()
    yield written
    choice.is_whole.cache_clear()


def convert(written: list[str], content: str = "weights", digest: str = "ab"):
    def write(path) -> None:
        written.append(content)
        path.write_text(content)

    return choice.convert("model", digest, write)


def left(tmp_path) -> set[str]:
    return {path.name for path in (tmp_path / "openvino").iterdir() if path.name != ".merging.lock"}


def test_the_second_use_finds_it(made, tmp_path) -> None:
    folder = convert(made)
    assert convert(made) == folder
    choice.is_whole.cache_clear()  # as another process
    assert convert(made) == folder
    assert made == ["weights"]
    assert left(tmp_path) == {folder.name}
    assert {path.name for path in folder.iterdir()} == {"openvino_model.bin", choice.MANIFEST}


def test_threads_that_need_it_at_once_make_it_once(made) -> None:
    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(lambda _: convert(made), range(4)))
    assert len(folders) == len(made) == 1


def test_what_was_interrupted_leaves_nothing(made, tmp_path) -> None:
    def interrupted(path) -> None:
        path.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        choice.convert("model", "ab", interrupted)
    assert left(tmp_path) == set()
    (tmp_path / "openvino" / ".merging-ab1_2cd3" / "model").mkdir(parents=True)  # a killed process cleans up nothing
    folder = convert(made)
    assert left(tmp_path) == {folder.name}


@pytest.mark.parametrize("damage", ["content", "missing", "manifest", "hash", "empty"])
def test_a_damaged_model_is_made_again(damage, made) -> None:
    folder = convert(made)
    manifest = folder / choice.MANIFEST
    if damage == "content":
        (folder / "openvino_model.bin").write_text("wreckage")
    elif damage == "missing":
        (folder / "openvino_model.bin").unlink()
    elif damage == "manifest":
        manifest.write_text("[]")
    elif damage == "hash":
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "weights_hash": "other"}))
    else:
        manifest.unlink()
    choice.is_whole.cache_clear()
    assert (convert(made) / "openvino_model.bin").read_text() == "weights"
    assert len(made) == 2


def test_another_runtime_has_a_model_of_its_own(made, monkeypatch) -> None:
    import openvino_genai

    first = convert(made)
    monkeypatch.setattr(openvino_genai, "__version__", "9/next")
    second = convert(made)
    assert first != second
    assert second.name == "model-9_next"
    assert len(made) == 2


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_weights_that_change_after_they_were_hashed_are_not_kept(when, made, tmp_path, monkeypatch) -> None:
    model = make_model(tmp_path / "model", SHAPE)
    folder = make_adapter(tmp_path / "adapter", SHAPE, base_model_name_or_path=str(model))

    def write(path, source, *rest) -> None:
        path.write_bytes(source.read("model.layers.1.mlp.up_proj.weight").tobytes())
        if when == "meanwhile":
            make_adapter(folder, SHAPE, factors(SHAPE, seed=6), base_model_name_or_path=str(model))

    connected = choice.weights(str(folder))
    if when == "before":
        make_adapter(folder, SHAPE, factors(SHAPE, seed=5), base_model_name_or_path=str(model))
    with monkeypatch.context() as patch:
        patch.setattr(choice, "write_gguf", write)
        with pytest.raises(UserError, match="adapter' has changed since it was connected. Connect it again"):
            connected.converted()
    assert left(tmp_path) == set()
    when = "later"
    make_adapter(folder, SHAPE, base_model_name_or_path=str(model))  # the weights that were connected
    monkeypatch.setattr(choice, "write_gguf", write)
    wanted = choice.load(folder).read("model.layers.1.mlp.up_proj.weight").tobytes()
    assert (connected.converted() / "openvino_model.bin").read_bytes() == wanted
