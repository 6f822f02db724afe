"""Prompts in front of queries and passages: those that a model states, and E5's, which states none."""

import json
from pathlib import Path

import numpy as np
import pytest

from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.retrievers.embedder import DEFAULT_EMBEDDER, Embedder, Prompts, prompts_of

E5 = Prompts("query: ", "passage: ", "query: ")


@pytest.mark.parametrize(
    ("name", "stated", "default", "prompts"),
    [
        ("intfloat/multilingual-e5-small", {}, None, E5),
        ("models--intfloat--e5-base-v2", {"query": "", "document": ""}, None, E5),
        ("intfloat/multilingual-e5-large-instruct", {}, None, Prompts()),
        ("some/model", {}, None, Prompts()),
        ("some/model", {"query": "ask: ", "passage": "read: "}, None, Prompts("ask: ", "read: ", "")),
        ("multilingual-e5-small", {"query": "ask: "}, None, Prompts("ask: ", "", "")),
        ("some/model", {"query": "ask: ", "document": ""}, "query", Prompts("ask: ", "", "ask: ")),
        ("some/model", {"any": "text: "}, "any", Prompts("text: ", "text: ", "text: ")),
        ("some/model", {"query": 3}, "missing", Prompts()),
    ],
)
def test_the_prompts_of_a_model(name, stated, default, prompts):
    assert prompts_of(name, stated, default) == prompts


def folder_of(path: Path, **stated: object) -> str:
    path.mkdir(parents=True)
    (path / "modules.json").write_text("[]")
    if stated:
        (path / "config_sentence_transformers.json").write_text(json.dumps(stated))
    return str(path)


def test_a_folder_is_known_by_its_name_or_what_it_states_and_the_hash_says_so(tmp_path):
    plain, named = folder_of(tmp_path / "plain"), folder_of(tmp_path / "multilingual-e5-small")
    cached = folder_of(tmp_path / "models--intfloat--multilingual-e5-small" / "snapshots" / "4f1c")
    stating = folder_of(tmp_path / "stating", prompts={"query": "ask: "}, default_prompt_name=None)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config_sentence_transformers.json").write_text("[")
    every = [Embedder(each) for each in (plain, named, cached, stating, str(tmp_path / "broken"), DEFAULT_EMBEDDER)]
    assert [each.prompts for each in every] == [Prompts(), E5, E5, Prompts("ask: "), Prompts(), Prompts()]
    hashes = [each.weights_hash for each in every[:3]]
    assert hashes[0] != hashes[1] == hashes[2]


def test_an_index_embeds_passages_and_queries_with_their_prompts(tmp_path, monkeypatch):
    seen = []

    def encode(texts):
        seen.extend(texts)
        return np.ones((len(texts), 4))

    monkeypatch.setattr(Embedder, "_open", lambda embedder: encode)
    name = folder_of(tmp_path / "multilingual-e5-small")
    (tmp_path / "p.jsonl").write_text(json.dumps({"id": "a", "title": "青澜江", "text": "它流入镜湖。"}) + "\n")
    build_index(tmp_path / "p.jsonl", tmp_path / "i", retriever="dense", embedder=name)
    open_index(tmp_path / "i")("流入哪里", 1)
    Embedder(name)(["same"])
    assert [text.split(": ")[0] for text in seen] == ["passage", "query", "query"]
    assert seen[1:] == ["query: 流入哪里", "query: same"]


@pytest.mark.slow
def test_a_model_like_multilingual_e5_gives_the_vectors_of_torch(tmp_path, monkeypatch):
    """A random XLM-R with a Unigram tokenizer, as E5's, from a folder: converted, or in torch where that fails."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel

    monkeypatch.setenv("VERIHOP_CACHE_DIR", str(tmp_path / "cache"))
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", "▁query", "▁passage", ":", *"青澜江流入镜湖哪里", *"abcdefgh"]
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0 - 0.1 * rank) for rank, piece in enumerate(pieces)], unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    base, folder = tmp_path / "base", tmp_path / "multilingual-e5-small"
    named = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "cls_token": "<s>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=30, **named).save_pretrained(base)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = XLMRobertaConfig(
        vocab_size=len(pieces), max_position_embeddings=40, pad_token_id=1, type_vocab_size=1, **sizes
    )
    XLMRobertaModel(config).save_pretrained(base)
    modules = [Transformer(str(base), max_seq_length=30), Pooling(16, pooling_mode="mean"), Normalize()]
    model = sentence_transformers.SentenceTransformer(modules=modules, device="cpu")
    model.save(str(folder))
    texts = ["青澜江流入哪里", "镜湖"]
    embedder = Embedder(str(folder))
    theirs = [model.encode([f"{prompt}: {text}" for text in texts]) for prompt in ("query", "passage")]
    for ours, their in zip((embedder.queries(texts), embedder.passages(texts)), theirs, strict=True):
        np.testing.assert_allclose(ours, their, atol=1e-5)
    assert not np.allclose(theirs[0], theirs[1], atol=1e-3)
