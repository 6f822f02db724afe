"""Embeddings of a server: in batches, a few at a time, repeated while it is busy, and only where the user says."""

import json
import threading

import numpy as np
import pytest

from corpora.encoders import served_encoder
from corpora.encoders.served_encoder import AT_A_TIME, BASE, BATCH, KEY
from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.index.update import update_index
from corpora.retrievers.embedder import Embedder, open_embedder
from signatures.common.errors import UserError
from tests.corpora.conftest import hashed_words, write_corpus
from tests.loopback import JsonHandler, Loopback


class Served:
    """What the server was asked, and how it replies: `replies` are sent first, as (status, payload)."""

    def __init__(self):
        self.sizes, self.keys, self.models, self.texts, self.replies = [], [], [], [], []
        self.lock, self.inside, self.most = threading.Lock(), 0, 0
        self.meet = None  # a barrier at which requests wait for one another
        state = self

        class Handler(JsonHandler):
            def post(self):
                body = self.body()
                assert self.path.endswith("/v1/embeddings")
                with state.lock:
                    state.sizes.append(len(body["input"]))
                    state.keys.append(self.headers.get("Authorization"))
                    state.models.append(body["model"])
                    state.texts += body["input"]
                    state.inside += 1
                    state.most = max(state.most, state.inside)
                    status, payload = state.replies.pop(0) if state.replies else (200, None)
                if state.meet is not None:
                    state.meet.wait(30)
                with state.lock:
                    state.inside -= 1
                vectors = [3 * vector for vector in hashed_words(body["input"])]  # any length: ours have length 1
                data = [{"index": n, "embedding": vector.tolist()} for n, vector in enumerate(vectors)]
                self.reply(status, {"data": data[::-1]} if payload is None else payload)

        self.server = Loopback(Handler)
        self.base = self.server.base


@pytest.fixture
def served(monkeypatch):
    monkeypatch.delenv(BASE, raising=False)
    monkeypatch.delenv(KEY, raising=False)
    monkeypatch.setattr(served_encoder, "_PAUSES", (0.0, 0.0, None))
    found = Served()
    yield found
    found.server.close()


def test_batches_are_sent_a_few_at_a_time_and_come_back_in_order(served, monkeypatch):
    served.meet = threading.Barrier(AT_A_TIME)
    texts = [f"amber {n}" for n in range(2 * AT_A_TIME * BATCH)]
    vectors = open_embedder("m", served.base)(texts)
    assert served.sizes == [BATCH] * 2 * AT_A_TIME
    assert served.most == AT_A_TIME
    expected = hashed_words(texts)
    np.testing.assert_allclose(vectors, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)


def test_the_key_of_the_variable_is_sent_and_no_other(served, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else-1234")
    open_embedder("m", served.base)(["a"])
    monkeypatch.setenv(KEY, "sk-mine-1234567890abcdef")
    open_embedder("m", served.base)(["a"])
    assert served.keys == [None, "Bearer sk-mine-1234567890abcdef"]


def test_a_busy_server_is_asked_again(served):
    served.replies = [(429, {"error": "slowly"}), (503, {"error": "starting"})]
    assert open_embedder("m", served.base)(["amber"]).shape == (1, 64)
    assert served.sizes == [1, 1, 1]


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ((401, {"error": "who are you"}), f"status 401: .*who are you.*: set {KEY}"),
        ((404, {"error": "no model"}), "check the name of the embedder"),
        ((400, {"error": "too long"}), "cut passages"),
        ((200, {"data": []}), "0 vectors for 1 texts|no vectors"),
        ((200, {"data": [{"index": 1, "embedding": [1.0]}]}), "no vectors: 1 vectors for 1 texts"),
        ((200, {"data": [{"index": 0, "embedding": ["x"]}]}), "no vectors"),
        ((200, b"<html>"), "OpenAI-compatible"),
        ((200, b'{"data": [{"index": 0, "embedding": [1.0, NaN]}]}'), "no vectors: a number is not finite"),
        ((200, b'{"data": [{"index": 0, "embedding": [1.0, 1e39]}]}'), "no vectors: a number is not finite"),
        ((307, b""), "status 307: .*redirects are not followed, so name the address"),
    ],
)
def test_a_reply_that_is_no_vectors_is_one_line_and_not_repeated(served, reply, told):
    served.replies = [reply]
    with pytest.raises(UserError, match=told) as caught:
        open_embedder("m", served.base)(["amber"])
    assert "\n" not in str(caught.value)
    assert served.sizes == [1]


def test_a_server_that_stays_busy_is_given_up(served):
    served.replies = [(500, {"error": "broken"})] * 9
    with pytest.raises(UserError, match=r"status 500: .*try again later.*resume"):
        open_embedder("m", served.base)(["amber"])
    assert served.sizes == [1, 1, 1]


def test_a_server_that_is_not_there_is_told_at_once(served):
    served.server.close()
    with pytest.raises(UserError, match="check that it runs, and its address"):
        open_embedder("m", served.base)(["amber"])


def test_a_build_goes_on_after_the_server_failed(served, monkeypatch, tmp_path):
    monkeypatch.setattr("corpora.index.embedding.SHARD", 100)
    corpus = write_corpus(tmp_path / "passages.jsonl", 250)
    served.replies = [(200, None)] * 3 + [(400, {"error": "enough"})]
    with pytest.raises(UserError, match="enough"):
        build_index(corpus, tmp_path / "index", embedder=open_embedder("m", served.base))
    asked = len(set(served.texts[:100]))
    served.texts.clear()
    info = build_index(corpus, tmp_path / "index", embedder=open_embedder("m", served.base), resume=True)
    assert asked == 100
    assert len(served.texts) == 150  # the first shard is there
    build_index(corpus, tmp_path / "whole", embedder=Embedder("local", encode=hashed_words))
    name = f"m@{served.base}"
    assert info.embedder is not None
    assert info.embedder.id == name
    monkeypatch.setenv(BASE, served.base)
    ours = open_index(tmp_path / "whole", embedder=Embedder("local", encode=hashed_words))
    theirs = open_index(tmp_path / "index")
    served.texts.clear()
    ranked = [[passage.id for passage in found("amber brook", 9)] for found in (ours, theirs, theirs)]
    assert ranked[0] == ranked[1] == ranked[2]
    assert served.texts == ["amber brook"]  # its vector is kept
    assert ours.fingerprint != theirs.fingerprint
    (tmp_path / "more.jsonl").write_text('{"id": "new", "text": "amber brook"}\n')
    served.texts.clear()
    update_index(tmp_path / "index", add=[tmp_path / "more.jsonl"])
    assert served.texts == ["amber brook"]


def test_queries_go_to_no_server_that_an_index_names_but_the_user_does_not(served, corpus, monkeypatch, tmp_path):
    build_index(corpus, tmp_path / "index", embedder=open_embedder("m", served.base))
    served.texts.clear()
    monkeypatch.setenv(KEY, "sk-mine-1234567890abcdef")
    for stated in (None, "http://127.0.0.1:1/v1"):
        if stated is not None:
            monkeypatch.setenv(BASE, stated)
        with pytest.raises(UserError, match=f"if you trust it, export {BASE}={served.base}"):
            open_index(tmp_path / "index")("amber", 1)
    assert not served.texts
    monkeypatch.setenv(BASE, served.base)
    assert open_index(tmp_path / "index")("amber", 1)


def test_user_and_password_of_the_address_are_in_no_file(served, corpus, tmp_path):
    address = served.base.replace("://", "://someone:pass-9127-word@")
    info = build_index(corpus, tmp_path / "index", embedder=open_embedder("m", address))
    assert info.embedder is not None
    assert info.embedder.id == f"m@{served.base}"
    assert served.keys[0] is not None
    assert served.keys[0].startswith("Basic ")
    assert b"pass-9127" not in b"".join(path.read_bytes() for path in (tmp_path / "index").rglob("*") if path.is_file())
    served.replies = [(400, {"error": "you are someone:pass-9127-word"})]
    with pytest.raises(UserError, match="status 400") as told:
        open_embedder("m", address)(["amber"])
    assert "pass-9127" not in str(told.value)


def test_a_key_in_the_path_of_the_address_is_in_no_file(served, corpus, monkeypatch, tmp_path):
    address = served.base.replace("/v1", "/sk-abcdefghij0123456789/v1")
    info = build_index(corpus, tmp_path / "index", embedder=open_embedder("m", address))
    assert info.embedder is not None
    assert info.embedder.id == f"m@{served.base.replace('/v1', '/***/v1')}"
    monkeypatch.setenv(BASE, address)
    assert open_index(tmp_path / "index")("amber", 1)
    content = b"".join(path.read_bytes() for path in (tmp_path / "index").rglob("*") if path.is_file())
    assert b"sk-abcdefghij" not in content


@pytest.mark.parametrize("path", ["team@work/v1", "team work/v1", "pass-9127/word@host/v1"])
def test_an_address_that_cannot_stand_in_a_name_is_refused(path):
    with pytest.raises(UserError, match="%40") as told:
        open_embedder("m", f"http://127.0.0.1:1/{path}")
    assert "pass-9127" not in str(told.value)


def test_the_name_and_the_address_make_an_embedder(served):
    one, other = open_embedder("m", served.base), open_embedder("n", served.base)
    assert isinstance(one, Embedder)
    assert isinstance(other, Embedder)
    assert len({one.weights_hash, other.weights_hash, Embedder("m@http://other/v1").weights_hash}) == 3
    assert open_embedder("name", None) == "name"
    with pytest.raises(UserError, match="Set the embedder"):
        open_embedder(None, served.base)
    with pytest.raises(UserError, match="must be a URL"):
        open_embedder("m", "localhost:8000")
    with pytest.raises(UserError, match="decides its precision"):
        Embedder(one.id, precision="int8")
    with pytest.raises(UserError, match="decides its precision, not int8: omit it"):
        open_embedder("m", served.base, "int8")
    with pytest.raises(UserError, match="omit the cluster"):
        json.dumps(one._replacement.__reduce__())
