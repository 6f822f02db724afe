"""`verihop index --dense` and `--embed-api-base`."""

import json

import numpy as np
import pytest

from corpora.index.manifest import read_info
from tests.loopback import JsonHandler, Loopback


class Letters(JsonHandler):
    """Embeds a text by counting its letters."""

    def post(self):
        texts = self.body()["input"]
        vectors = [np.bincount([ord(sign) % 32 for sign in text], minlength=32).tolist() for text in texts]
        self.reply(200, {"data": [{"index": n, "embedding": vector} for n, vector in enumerate(vectors)]})


@pytest.fixture
def served(monkeypatch, tmp_path):
    """Return the options of a build with vectors of a server."""
    monkeypatch.delenv("VERIHOP_EMBED_API_BASE", raising=False)
    lines = [{"id": f"p{n}", "title": f"Town {n}", "text": f"Town {n} lies on the river Ossa."} for n in range(6)]
    (tmp_path / "passages.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    server = Loopback(Letters)
    yield ("--embedder", "letters", "--embed-api-base", server.base)
    server.close()


def test_an_index_of_vectors_of_a_server_is_built_searched_and_its_search_exchanged(
    served, verihop, monkeypatch, tmp_path
):
    out = tmp_path / "index"
    code, said, _ = verihop("index", tmp_path / "passages.jsonl", *served, "--dense", "flat", "--quiet")
    assert (code, said) == (0, f"Indexed 6 passages into {out} (hybrid).\n")
    assert read_info(out).embedder.id == f"letters@{served[-1]}"
    code, _, err = verihop("search", "Town 3", "--index", out)
    assert code == 2
    assert f"export VERIHOP_EMBED_API_BASE={served[-1]}" in err
    monkeypatch.setenv("VERIHOP_EMBED_API_BASE", served[-1])
    code, said, _ = verihop("search", "Town 3", "--index", out, "-k", "1", "--json")
    assert code == 0
    assert '"p3"' in said
    pytest.importorskip("faiss")
    code, said, err = verihop("index", "--out", out, "--dense", "rabitq", "--quiet")
    assert (code, said) == (0, f"The vectors of {out} are searched by rabitq (6 passages).\n")
    assert f"Next: verihop ask --program rag --index {out}" in err
    assert read_info(out).dense_kind == "rabitq"


def test_dense_alone_changes_an_index_and_nothing_else(served, verihop, tmp_path):
    code, _, err = verihop("index", "--dense", "flat")
    assert (code, "name that alone, or a corpus" in err) == (2, True)
    for other in (["--retriever", "dense"], ["--triples", "t"], served[2:], ["--cluster", "local"], ["--resume"]):
        code, _, err = verihop("index", "--dense", "flat", "--out", tmp_path, *other)
        assert (code, "name that alone, or a corpus" in err) == (2, True)
    code, _, err = verihop("index", tmp_path / "passages.jsonl", "--retriever", "bm25", "--dense", "pgvector")
    assert (code, "a bm25 index has no vectors" in err) == (2, True)
    code, _, err = verihop("index", "--dense", "flat", "--out", tmp_path / "i", "--add", tmp_path / "passages.jsonl")
    assert (code, "--dense is for building" in err) == (2, True)
    code, _, err = verihop("index", tmp_path / "passages.jsonl", "--dense", "oracle")
    assert (code, "dense_kind='oracle'" in err) == (2, True)
