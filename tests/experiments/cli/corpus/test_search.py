"""`verihop search`: passages, and which ranking found them."""

import io
import json
import sys
from types import SimpleNamespace

import pytest

from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.retrievers.embedder import Embedder
from corpora.retrievers.settings import RetrievalSettings
from tests.corpora.conftest import hashed_words

LINES = [
    {"id": "ossa", "title": "Ossa", "text": "The Ossa is a river. " + "It is calm. " * 40 + "Its mouth is at Marn."},
    {"id": "marn", "title": "Marn", "text": "Marn lies in Veld.", "source": "atlas.pdf", "page": 7},
    {"id": "veld", "title": "", "text": "A country of plains \x1b[31m."},
]
SEARCH = """
from signatures.types import Passage


def search(query, k):
    return [Passage(id=f"{query} {n}", text="found") for n in range(k)]
"""


@pytest.fixture
def index(tmp_path, monkeypatch):
    (tmp_path / "passages.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    embedder = Embedder("fake", encode=hashed_words)
    build_index(tmp_path / "passages.jsonl", tmp_path / "index", embedder=embedder)
    monkeypatch.setattr("corpora.index.open._embedder_of", lambda *_: embedder)
    return tmp_path / "index"


def test_each_passage_is_shown_with_its_ranks_its_source_and_the_words_found(index, verihop):
    code, out, err = verihop("search", "the mouth in Marn", "--index", index, "-k", 2)
    assert code == 0
    lines = out.splitlines()
    found = open_index(index).explain("the mouth in Marn", 2)
    heads = [line for line in lines if line[3] == "."]
    assert [head.split()[:3] for head in heads] == [
        [f"{rank}.", f"{each.passage.score:.3f}", f"[{each.passage.id}]"] for rank, each in enumerate(found, start=1)
    ]
    assert "bm25: rank 1 (" in out
    assert "dense: rank " in out
    assert lines[lines.index(next(line for line in heads if "[marn]" in line)) + 2] == "     atlas.pdf, page 7"
    assert "... It is calm." in out
    assert "Its mouth is at Marn." in out
    assert err == f"Next: verihop ask --program rag --index {index} 'the mouth in Marn'\n"


def test_words_are_found_by_the_language_of_the_index(tmp_path, verihop):
    line = {"id": "p", "title": "", "text": "Es ist so. " * 40 + "Dort stehen Häuser."}
    (tmp_path / "p.jsonl").write_text(json.dumps(line) + "\n")
    settings = RetrievalSettings(language="de")
    build_index(tmp_path / "p.jsonl", tmp_path / "index", retriever="bm25", settings=settings)
    _, out, _ = verihop("search", "Welches Haus ist es?", "--index", tmp_path / "index")
    assert "Dort stehen Häuser." in out


def test_what_only_one_ranking_found_says_so_and_escapes_are_shown(index, verihop):
    _, out, _ = verihop("search", "country", "--index", index, "-k", 3)
    assert "bm25: not among its candidates, dense: rank" in out
    assert "\\x1b[31m" in out
    _, out, _ = verihop("search", "zebra", "--index", index, "--retriever", "bm25")
    assert out == "No passage was found: use other words.\n"


def test_reranking_shows_the_rank_before(index, verihop):
    _, out, err = verihop("search", "Where is the mouth of the Ossa?", "--index", index, "--rerank", "own")
    assert out.count("before reranking: rank ") == 3
    assert "--rerank own" in err


def test_sentences_are_shown_in_place_of_passages(index, verihop):
    words = ("search", "Where is the mouth of the Ossa?", "--index", index, "--json")
    hits = [json.loads(verihop(*words, *more)[1])["results"][0]["hits"] for more in (("-k", 10), ("--sentences", 2))]
    whole, cut = ([each["passage"] for each in found] for found in hits)
    texts = {each["id"]: each["text"] for each in whole}
    assert 1 <= len(cut) <= 2
    assert all(set(each["text"].split()) <= set(texts[each["id"]].split()) for each in cut)
    assert sum(len(each["text"]) for each in cut) < sum(len(texts[each["id"]]) for each in cut)
    code, _, err = verihop("search", "Ossa", "--index", index, "--sentences", 101)
    assert (code, "--sentences" in err) == (2, True)


def test_json_has_whole_passages_and_all_places(index, verihop):
    code, out, err = verihop("search", "Marn", "--index", index, "-k", 1, "--json")
    result = json.loads(out)
    assert (code, err, result["retriever"]) == (0, "", open_index(index).fingerprint)
    (hit,) = result["results"][0]["hits"]
    assert {name: hit["passage"][name] for name in LINES[1]} == LINES[1]
    assert [(place["by"], place["rank"]) for place in hit["places"]] == [("bm25", 1), ("dense", 1)]


def test_queries_come_from_a_file_or_from_standard_input(index, verihop, tmp_path, monkeypatch):
    (tmp_path / "q.txt").write_text("Ossa\n\n  Marn \n")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"Ossa\nMarn\n")))
    printed = [verihop("search", "--queries", name, "--index", index, "-k", 1)[1] for name in (tmp_path / "q.txt", "-")]
    assert printed[0] == printed[1]
    assert [line for line in printed[0].splitlines() if line.startswith("Query: ")] == ["Query: Ossa", "Query: Marn"]


def test_an_own_retriever_is_searched_without_an_index(verihop, tmp_path, monkeypatch):
    (tmp_path / "found_search.py").write_text(SEARCH)
    monkeypatch.chdir(tmp_path)
    code, out, err = verihop("search", "Ossa", "--retriever", "found_search:search", "-k", 2)
    assert (code, out.count("found_search:search: rank ")) == (0, 2)
    assert out.startswith("  1.         [Ossa 0]\n     found_search:search: rank 1\n     found\n")
    assert "--retriever found_search:search" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "Name one query, or a file of them"),
        (("Ossa", "--queries", "q.txt"), "Name one query, or a file of them"),
        (("Ossa",), "Name what to search: the folder of an index"),
        (("  ", "--index", "index"), "The query is empty"),
        (("--queries", "empty.txt", "--index", "index"), "empty.txt is empty"),
        (("--queries", "lost.txt", "--index", "index"), "lost.txt cannot be read"),
        (("Ossa", "--index", "nowhere"), "nowhere contains no index"),
        (("Ossa", "--index", "index", "--rerank", "/nowhere"), "Reranker '/nowhere' cannot be loaded"),
        (("\udcff", "--index", "index"), "not valid UTF-8"),
    ],
)
def test_what_cannot_be_searched_is_one_line(words, message, index, verihop, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("\n")
    code, out, err = verihop("search", *words)
    assert (code, out) == (2, "")
    assert message in err.splitlines()[-1]
