"""`verihop index push` and `verihop index pull`, from a web server on this machine; `verihop index` stays as it was."""

import contextlib
import functools
import json
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest

import verihop as library
from tests.loopback import Loopback


class Plain(SimpleHTTPRequestHandler):
    """A server that knows no ranges."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def index(tmp_path: Path, verihop) -> Path:
    corpus = tmp_path / "passages.jsonl"
    lines = [{"id": f"p{n}", "title": f"Town {n}", "text": f"Town {n} lies on the river Ossa."} for n in range(6)]
    corpus.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert verihop("index", corpus, "--retriever", "bm25", "--quiet")[0] == 0
    return tmp_path / "index"


def test_a_ready_index_is_one_command(index, tmp_path, verihop, following, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = verihop("index", "push", "index", "public/idx")
    assert (code, out) == (0, "Pushed 6 passages (bm25): public/idx.\n")
    assert "Next: verihop index pull public/idx --out index-pulled" in err
    with contextlib.closing(Loopback(functools.partial(Plain, directory="public"), "/idx")) as server:
        code, out, err = verihop("index", "pull", server.base, "--out", "here")
        assert (code, out) == (0, "Pulled 6 passages (bm25): here.\n")
        assert f"6 passages (bm25) from {server.base}: " in err  # how much comes, before it comes
        assert "Next: verihop ask --program rag --index here 'your question'" in err
        code, out, err = verihop("index", "pull", server.base, "--out", "here", "--quiet")
        assert (code, out, err.count("\n")) == (0, "here has this index already: 6 passages (bm25).\n", 1)
        code, out, err = verihop("index", "pull", server.base, "-o", "other", "--json", "-q")
        assert (code, err) == (0, "")
        assert {name: json.loads(out)[name] for name in ("index", "changed", "passages")} == {
            "index": "other", "changed": True, "passages": 6}  # fmt: skip
        assert library.pull_index(server.base, "third", progress=False).changed is True
    assert "p3" in verihop("search", "Town 3", "--index", "third", "-k", 1)[1]
    following("index", "push", "index", "public/again")


def test_the_words_after_index_are_those_of_a_build_unless_they_are_push_or_pull(index, tmp_path, verihop, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("pull").write_bytes(Path("passages.jsonl").read_bytes())
    code, out, _ = verihop("index", "./pull", "--out", "of-pull", "--retriever", "bm25", "-q")
    assert (code, out) == (0, "Indexed 6 passages into of-pull (bm25).\n")
    assert verihop("index", "--retriever", "bm25", "passages.jsonl", "-o", "options-first", "-q")[0] == 0
    assert "--remove" in verihop("index", "--help")[1]
    assert "verihop index push" in verihop("index", "--help")[1]
    assert "Name the corpus to index" in verihop("index")[2]
    assert verihop("index", "pull", "--help")[1].startswith("Usage: verihop index pull")


def test_what_fails_is_one_line_with_the_cure(index, tmp_path, verihop, monkeypatch):
    monkeypatch.chdir(tmp_path)
    verihop("index", "push", "index", "public", "-q")
    Path("public/passages.txt").write_bytes(b"damaged")
    for words, message in (
        (("pull", "public", "-o", "out"), "passages.txt"),
        (("pull", "nowhere", "-o", "out"), "no index was pushed there (`verihop index push`)"),
        (("push", "nowhere", "public"), "nowhere contains no index"),
        (("push", "index", "https://example.org/x"), "push into a folder that a server serves"),
    ):
        code, out, err = verihop("index", *words, "-q")
        assert (code, out, len(err.splitlines())) == (2, "", 1), err
        assert message in err
