"""A BERT built from its weights gives the vectors of torch, and what is no such model is refused."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from corpora.encoders.bert_graph import OtherForm, bert_graph, bert_tokenizer
from corpora.encoders.openvino_encoder import OpenVinoEncoder
from corpora.encoders.openvino_model import open_converted

TEXTS = ["who wrote it", "", "the river ends in a lake", "the " * 40, "a b"]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"who wrote it the river ends in a lake b".split()]


@pytest.fixture
def tiny(tmp_path) -> Path:
    """Return the folder of a small BERT with random weights, as sentence-transformers writes it."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    from sentence_transformers.models import Normalize, Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    base, folder = tmp_path / "base", tmp_path / "model"
    base.mkdir()
    (base / "vocab.txt").write_text("\n".join(WORDS))
    BertTokenizerFast(str(base / "vocab.txt")).save_pretrained(base)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=40,
        max_position_embeddings=20,
    )
    BertModel(config).save_pretrained(base)
    transformer = Transformer(str(base), max_seq_length=16)
    modules = [transformer, Pooling(24, pooling_mode="mean"), Normalize()]
    sentence_transformers.SentenceTransformer(modules=modules, device="cpu").save(str(folder))
    return folder


def change(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.slow
def test_the_vectors_are_those_of_torch(tiny, tmp_path):
    import openvino
    from sentence_transformers import SentenceTransformer

    openvino.save_model(bert_graph(tiny), tmp_path / "model.xml", compress_to_fp16=False)
    (tmp_path / "tokenizer.json").write_text(bert_tokenizer(tiny))
    encode = OpenVinoEncoder(tmp_path / "model.xml", tmp_path / "tokenizer.json", precision="f32", threads=1)
    theirs = SentenceTransformer(str(tiny), device="cpu").encode(TEXTS)
    for vectors in (encode(TEXTS), np.concatenate([encode([text]) for text in TEXTS])):
        np.testing.assert_allclose(vectors, theirs, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: change(folder / "config.json", hidden_act="relu"),
        lambda folder: change(folder / "config.json", model_type="mpnet"),
        lambda folder: change(folder / "config.json", num_hidden_layers=3),
        lambda folder: change(folder / "config.json", num_attention_heads=5),
        lambda folder: change(folder / "config.json", num_attention_heads=True),
        lambda folder: change(folder / "config.json", num_hidden_layers=0),
        lambda folder: change(folder / "config.json", layer_norm_eps=-1),
        lambda folder: change(folder / "config.json", max_position_embeddings=30),
        lambda folder: change(folder / "config.json", is_decoder=True),
        lambda folder: change(folder / "sentence_bert_config.json", do_lower_case=True),
        lambda folder: (folder / "sentence_bert_config.json").write_text("[]"),
        lambda folder: (folder / "modules.json").write_text("[]"),
        lambda folder: change(folder / "config_sentence_transformers.json", default_prompt_name="query"),
        lambda folder: change(folder / "sentence_bert_config.json", transformer_task="fill-mask"),
        lambda folder: (folder / "config.json").write_text("no JSON"),
        lambda folder: (folder / "model.safetensors").write_bytes(b"no weights"),
    ],
)
def test_another_form_is_refused(tiny, spoil):
    spoil(tiny)
    with pytest.raises(OtherForm):
        bert_graph(tiny)


@pytest.mark.slow
def test_what_has_another_form_is_converted_by_torch(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("VERIHOP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("corpora.encoders.openvino_model.cache_dir", lambda: tmp_path / "cache")
    (pooling,) = tiny.glob("*_Pooling")
    change(pooling / "config.json", pooling_mode="cls")
    with pytest.raises(OtherForm):
        bert_graph(tiny)
    encode = open_converted(tiny, "hash", precision="f32", threads=1, batch_size=4)
    from sentence_transformers import SentenceTransformer

    np.testing.assert_allclose(encode(TEXTS), SentenceTransformer(str(tiny), device="cpu").encode(TEXTS), atol=1e-5)


@pytest.mark.slow
def test_the_default_model_needs_no_torch(tmp_path):
    code = """
import sys
sys.modules["torch"] = sys.modules["sentence_transformers"] = None
from pathlib import Path
from corpora.encoders import openvino_model
from corpora.retrievers.embedder import Embedder
openvino_model.cache_dir = lambda: Path(sys.argv[1])
print(Embedder(device="cpu")(["Who wrote it?"]).shape)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert done.stdout == "(1, 384)\n", done.stderr
