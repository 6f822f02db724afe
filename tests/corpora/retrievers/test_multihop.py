"""Hops: a passage that the question shares nothing with is found by way of another, and only queries are adapted."""

import json

import numpy as np
import pytest

from corpora.encoders.low_rank import LowRank, save
from corpora.index import open as opening
from corpora.index.build import build_index
from corpora.index.open import chosen_by_default, fingerprints, open_index, served
from corpora.retrievers import multihop
from corpora.retrievers.embedder import DEFAULT_EMBEDDER, Embedder
from corpora.retrievers.engine import Fusing, IndexRetriever, Prefetching
from corpora.retrievers.multihop import ADAPTER, SEPARATOR, MultihopEngine
from corpora.retrievers.rerank import open_reranker
from corpora.retrievers.rerank_features import CONTEXTS
from corpora.retrievers.store import PassageStore
from signatures.common.errors import UserError

TEXTS = {"amber": "delta ember", "brook": "fjord grove", "cedar": "harbor inlet", "delta": "jetty knoll"}
QUESTION = "amber ember"


class Leading:
    """An embedder of queries that goes from a question and the passage about amber to that about delta."""

    def __init__(self, plain):
        self.plain, self.asked = plain, []

    def __call__(self, texts):
        self.asked += texts
        return self.plain([f"delta {TEXTS['delta']}" if "amber\n" in text else "cedar" for text in texts])


@pytest.fixture
def folder(tmp_path, fake_embedder):
    lines = [{"id": title, "title": title, "text": text} for title, text in TEXTS.items()]
    corpus = tmp_path / "passages.jsonl"
    corpus.write_text("".join(json.dumps(line) + "\n" for line in lines))
    build_index(corpus, tmp_path / "index", embedder=fake_embedder)
    return tmp_path / "index"


@pytest.fixture
def opened(folder, fake_embedder):
    """Return a function that opens the index with an engine of hops, and the embedder of these."""

    def make(**options):
        hybrid = open_index(folder, embedder=fake_embedder)
        leading = Leading(fake_embedder)
        store = PassageStore(folder)
        return IndexRetriever(MultihopEngine(hybrid.engine, store, leading, **options), store, "x"), leading, hybrid

    return make


def ids(passages):
    return [passage.id for passage in passages]


def test_the_second_passage_is_found_by_way_of_the_first(opened):
    retrieve, leading, hybrid = opened(beams=(1,))
    assert ids(hybrid(QUESTION, 4))[0] == "amber"
    assert "delta" not in ids(hybrid(QUESTION, 2))
    assert set(ids(retrieve(QUESTION, 2))) == {"amber", "delta"}
    assert leading.asked == [f"{QUESTION}{SEPARATOR}amber\n{TEXTS['amber']}"]


def test_no_passage_is_left_twice_and_the_beams_bound_what_is_encoded(opened):
    retrieve, leading, _ = opened(beams=(2, 1))
    retrieve(QUESTION, 4)
    assert len(leading.asked) == len(set(leading.asked)) == 3


def test_all_passages_are_ranked_once_and_scores_fall(opened):
    retrieve, _, _ = opened(beams=(2, 9))
    found = retrieve(QUESTION, 10)
    assert sorted(ids(found)) == sorted(TEXTS)
    scores = [passage.score for passage in found]
    assert scores == sorted(scores, reverse=True)
    assert min(scores) >= 0


def test_many_gives_what_single_calls_give(opened):
    retrieve, _, _ = opened()
    asked = [QUESTION, "fjord", "", "harbor grove"]
    assert [ids(found) for found in retrieve.many(asked, 3)] == [ids(retrieve(query, 3)) for query in asked]


def test_what_follows_a_passage_leaves_it_out_by_words(opened):
    retrieve, _, hybrid = opened()
    (amber,) = retrieve.passages(["amber"])
    (found,) = retrieve.follow([(QUESTION, amber)], 2)
    assert found[0].id == "delta"
    assert hybrid.follow([(QUESTION, amber)], 2) is None
    assert retrieve.follow([], 2) == []


def test_fewer_passages_are_the_first_of_more(opened, monkeypatch):
    monkeypatch.setattr(multihop, "FOUND", 2)
    retrieve, _, _ = opened(beams=(1,))
    assert ids(retrieve(QUESTION, 2)) == ids(retrieve(QUESTION, 4))[:2]


def test_it_can_be_explained_and_prefetched(opened):
    retrieve, leading, _ = opened()
    assert isinstance(retrieve.engine, Fusing)
    assert isinstance(retrieve.engine, Prefetching)
    retrieve.prefetch([QUESTION])
    assert leading.asked == []
    explained = retrieve.explain(QUESTION, 3)
    assert [each.passage.id for each in explained] == ids(retrieve(QUESTION, 3))
    places = {each.passage.id: {place.by: place.rank for place in each.places} for each in explained}
    assert all(by.keys() == {"bm25", "dense", "hops"} for by in places.values())
    assert places["delta"]["hops"] == 1


def test_own_goes_on_from_passages_with_the_question_and_with_weights_of_its_own(opened):
    retrieve, leading, hybrid = opened(beams=(1,))
    over = {name: open_reranker(each, "own") for name, each in (("hops", retrieve), ("hybrid", hybrid))}
    assert over["hops"].fingerprint.partition("(")[0] != over["hybrid"].fingerprint.partition("(")[0]
    assert sorted(ids(over["hops"](QUESTION, 4))) == sorted(TEXTS)
    assert all(text.startswith(f"{QUESTION}{SEPARATOR}") for text in leading.asked)
    assert len(set(leading.asked)) >= CONTEXTS
    assert [each.passage.id for each in over["hops"].explain(QUESTION, 2)] == ids(over["hops"](QUESTION, 2))


def test_an_index_by_another_embedder_is_refused_with_the_cure(folder, fake_embedder):
    with pytest.raises(UserError, match="'fake' is not the model"):
        build_index(
            folder.parent / "passages.jsonl", folder.parent / "new", retriever="multihop", embedder=fake_embedder
        )
    assert not (folder.parent / "new").exists()
    with pytest.raises(UserError, match=f"'fake' is not the model.*{DEFAULT_EMBEDDER}.*or another retriever"):
        open_index(folder, retriever="multihop", embedder=fake_embedder)
    assert "hybrid" in served(folder)
    assert "multihop" not in served(folder)
    assert chosen_by_default(folder) is None


def test_the_shipped_adapter_is_small_and_belongs_to_the_default_embedder():
    assert ADAPTER.stat().st_size < 6_000_000
    assert LowRank(ADAPTER).base == Embedder().weights_hash


def test_the_fingerprint_changes_with_the_adapter(folder, tmp_path, monkeypatch):
    before = fingerprints(folder)
    other = tmp_path / "other.safetensors"
    save(other, {"x.lora_A.weight": np.ones((1, 1), np.float32)}, factor=1.0, base="b")
    monkeypatch.setattr(opening, "adapter", lambda: LowRank(other))
    changed = before ^ fingerprints(folder)
    assert changed
    assert all(name.startswith(f"{multihop.MultihopEngine.name}-") for name in changed)


@pytest.mark.slow
def test_the_adapted_embedder_encodes_otherwise_and_the_same_in_torch(tmp_path, monkeypatch):
    pytest.importorskip("sentence_transformers")
    monkeypatch.setenv("VERIHOP_CACHE_DIR", str(tmp_path))
    plain, texts = Embedder(), ["Who wrote it?", f"Who wrote it?{SEPARATOR}Title\nA text."]
    adapted = plain.adapted(LowRank(ADAPTER))
    assert adapted.backend == "openvino"
    assert adapted.weights_hash != plain.weights_hash
    vectors = adapted(texts)
    assert ((vectors * plain(texts)).sum(axis=1) < 0.9999).any()
    in_torch = Embedder(device="cpu:0").adapted(LowRank(ADAPTER))
    assert in_torch.backend == "torch"
    np.testing.assert_allclose((vectors * in_torch(texts)).sum(axis=1), 1, atol=1e-5)
