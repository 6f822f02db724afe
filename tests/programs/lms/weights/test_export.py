"""A trained LM is asked through three runtimes, which agree."""

import json

import numpy as np
import pytest
import typer
from dspy.lm15 import Config, Message, Request
from typer.testing import CliRunner

from experiments.cli.distill.app import export
from programs.lms.connect import connect
from programs.lms.weights import choice
from programs.lms.weights.export import export_gguf, export_transformers, modelfile, tokenizer
from programs.lms.weights.sources import folder_source
from signatures.common.errors import UserError
from tests.programs.lms.weights.made import SHAPE, make_adapter, make_model, random_tensors

QUESTIONS = ["What is the capital of France?", "In 1984 it rose by  12.5 metres. Why?", "Zürich?", "Name a colour."]


def first_tokens(lm_id: str) -> list[str]:
    """Return the first token of the reply to each question, through our runtimes."""
    connection = connect(lm_id, cache=False)
    config = Config(max_tokens=1, temperature=0.0)
    requests = [Request(model=connection.lm.model, messages=(Message.user(text),), config=config) for text in QUESTIONS]
    texts = [connection.lm(request).message.text for request in requests]
    connection.close()
    return texts


def likely_tokens_in_transformers(folder) -> list[set[str]]:
    """Return the first tokens that are the most likely but for what 8 bits round."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokens = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    texts = []
    for question in QUESTIONS:
        turns = [{"role": "user", "content": question}]
        ids = tokens.apply_chat_template(turns, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        with torch.no_grad():
            logits = model(**ids).logits[0, -1]
        best = (logits >= logits.max() - 0.1 * logits.std()).nonzero()[:, 0]
        assert len(best) <= 3
        texts.append({tokens.decode([token], skip_special_tokens=True) for token in best})
    return texts


def agree(folder, tmp_path) -> list[str]:
    """Check that the model in a folder says the same in all runtimes, and return what it says."""
    ours = first_tokens(f"embedded:exact:{folder}")
    theirs = first_tokens(f"gguf:{export_gguf(folder, tmp_path / 'gguf')}")
    likely = likely_tokens_in_transformers(export_transformers(folder, tmp_path / "hf"))
    for one, other, tokens in zip(ours, theirs, likely, strict=True):
        assert {one, other} <= tokens
    return ours


@pytest.fixture
def own_cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("VERIHOP_CACHE_DIR", str(tmp_path / "cache"))
    choice.is_whole.cache_clear()


@pytest.mark.slow
def test_a_tiny_model_says_the_same_in_all_runtimes(own_cache, tmp_path) -> None:
    model = make_model(tmp_path / "model", SHAPE)
    adapter = make_adapter(tmp_path / "adapter", SHAPE, base_model_name_or_path=str(model))
    assert len(set(agree(adapter, tmp_path))) > 1


@pytest.mark.slow
def test_an_adapter_of_the_embedded_lm_says_the_same_in_all_runtimes(own_cache, tmp_path) -> None:
    from programs.lms.weights.choice import load

    base = load(None).shape
    adapter = make_adapter(tmp_path / "adapter", base, lora_alpha=1)
    changed = agree(adapter, tmp_path)
    assert changed[0]
    assert len(set(changed)) > 1


@pytest.mark.slow
def test_the_untrained_model_with_8_bits_says_the_same_in_all_runtimes(own_cache, tmp_path) -> None:
    assert len(set(agree("base-8bit", tmp_path))) > 1


@pytest.mark.slow
def test_bfloat16_is_rounded_to_the_nearest(tmp_path) -> None:
    from safetensors.torch import load_file

    model = make_model(tmp_path / "model", SHAPE)
    stored = load_file(export_transformers(model, tmp_path / "hf", dtype="bfloat16") / "model.safetensors")
    import torch

    for name, tensor in random_tensors(SHAPE).items():
        assert torch.equal(stored[name], torch.from_numpy(tensor).bfloat16())


@pytest.mark.slow
def test_the_tokenizer_splits_as_the_embedded_lm(tmp_path) -> None:
    import openvino_genai

    ours = tokenizer()
    runtime = openvino_genai.Tokenizer(str(choice.converted()))
    for text in (
        *QUESTIONS,
        "  a\n\n\tb",
        "x=10;y =  20",
        "½ ² m³ 北京 2008年 😀",
        "<|im_start|>user\n1 2<|im_end|>\n",
    ):
        ids = np.asarray(runtime.encode(text, add_special_tokens=False).input_ids.data).ravel().tolist()
        assert ours.encode(text, add_special_tokens=False).ids == ids
        assert ours.decode(ids, skip_special_tokens=False) == text


def test_ollama_gets_the_form_of_chat_that_was_trained() -> None:
    text = modelfile(8192)
    assert text.startswith("FROM ./model.gguf\n")
    assert '{{ end }}<|im_start|>assistant\n"""' in text
    assert 'SYSTEM """You are a helpful AI assistant named SmolLM' in text
    assert 'PARAMETER stop "<|im_end|>"' in text
    assert "num_ctx 8192" in text


def run(*arguments: object):
    app = typer.Typer()
    app.command()(export)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_command_writes_and_says_what_is_next(tmp_path) -> None:
    model = make_model(tmp_path / "model", SHAPE)
    (model / "README.md").write_text("card")
    shown = run(model, "--to", "gguf", "--out", tmp_path / "out")
    assert shown.exit_code == 0, shown.output
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"model.gguf", "Modelfile", "README.md"}
    assert "ollama create out" in shown.output
    shown = run(model, "--to", "hf", "-o", tmp_path / "hf", "--json")
    assert json.loads(shown.output)["path"] == str(tmp_path / "hf")


@pytest.mark.parametrize("place", [".", "best"])
def test_the_description_of_the_training_goes_along(place, tmp_path) -> None:
    model = make_model(tmp_path / "model", SHAPE)
    folder = make_adapter(tmp_path / "adapter" / place, SHAPE, base_model_name_or_path=str(model))
    (tmp_path / "adapter" / "training.json").write_text('{"sources": {"world (MIT)": 3}}')
    (tmp_path / "adapter" / ("README.md" if place == "best" else "other.md")).write_text("of another thing")
    (tmp_path / "latest").symlink_to(folder)
    for number, named in enumerate((folder, tmp_path / "latest")):
        shown = run(named, "--to", "hf", "--out", tmp_path / f"hf{number}")
        assert shown.exit_code == 0, shown.output
        said = (tmp_path / f"hf{number}" / "training.json").read_text()
        assert json.loads(said) == {"sources": {"world (MIT)": 3}}
        assert not (tmp_path / f"hf{number}" / "README.md").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["embedded", "embedded:exact", "embedded:FOLDER", "FOLDER"])
def test_the_command_takes_what_is_served_by_its_id(name, tmp_path, monkeypatch) -> None:
    model = make_model(tmp_path / "model", SHAPE)
    folder = make_adapter(tmp_path / "adapter", SHAPE, base_model_name_or_path=str(model))
    (folder / "README.md").write_text("card")
    monkeypatch.setattr(choice, "DEFAULT_ADAPTER", folder)
    shown = run(name.replace("FOLDER", str(folder)), "--to", "hf", "--out", tmp_path / "hf")
    assert shown.exit_code == 0, shown.output
    assert (tmp_path / "hf" / "README.md").read_text() == "card"
    wanted, written = choice.load(folder), folder_source(tmp_path / "hf")
    for name in (f"model.layers.{layer}.mlp.up_proj.weight" for layer in (0, 1)):
        np.testing.assert_allclose(written.read(name), wanted.read(name), rtol=0, atol=1e-3)


@pytest.mark.parametrize("name", ["embedded", "embedded:base", "base", "base-8bit"])
def test_the_untrained_model_has_no_card(name, tmp_path, monkeypatch) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "README.md").write_text("of another thing")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(choice, "DEFAULT_ADAPTER", tmp_path / "none")
    seen = []
    monkeypatch.setattr("programs.lms.weights.export.write_gguf", lambda path, source, *rest: seen.append(source))
    shown = run(name, "--to", "gguf", "--out", tmp_path / "out")
    assert shown.exit_code == 0, shown.output
    assert seen[0].shape.layers == 30
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"Modelfile"}


def test_nothing_is_overwritten_or_left_half_written(tmp_path, monkeypatch) -> None:
    model = make_model(tmp_path / "model", SHAPE)
    (tmp_path / "out").mkdir()
    result = run(model, "--to", "gguf", "-o", tmp_path / "out")
    assert isinstance(result.exception, UserError)
    assert "exists. Name a new folder" in str(result.exception)
    (tmp_path / "out").rmdir()
    monkeypatch.setattr("programs.lms.weights.export.modelfile", lambda size: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export_gguf(model, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
