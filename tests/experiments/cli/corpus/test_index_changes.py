"""`verihop index --add --remove`, and the check of gold ids after building."""

import io
import json
import sys
from types import SimpleNamespace

import pytest

from corpora.index.open import open_index

LINES = [{"id": f"p{n}", "title": f"Town {n}", "text": f"Town {n} lies on the river Ossa."} for n in range(6)]


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "passages.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    (tmp_path / "more.jsonl").write_text(json.dumps({"id": "n", "text": "The river Ossa is long."}) + "\n")
    return path


@pytest.fixture
def index(corpus, verihop):
    assert verihop("index", corpus, "--retriever", "bm25", "--quiet")[0] == 0
    return corpus.parent / "index"


def test_a_change_says_what_was_done_and_what_to_do_next(index, verihop, tmp_path):
    (tmp_path / "ids.txt").write_text("\ufeffp4\n\n p5 \n", encoding="utf-8")
    command = ("index", "--out", index, "--add", tmp_path / "more.jsonl", "--remove", "p1,p2", "--remove",
               f"@{tmp_path / 'ids.txt'}")  # fmt: skip
    code, out, err = verihop(*command)
    assert code == 0
    assert out == f"Updated {index} (bm25): 3 passages, 2 kept, 1 added, 4 removed, 0 embedded.\n"
    assert f"Next: verihop search --index {index} 'your question'" in err
    assert "Passages" in err  # progress
    assert {passage.id for passage in open_index(index)("river Ossa", 9)} == {"p0", "p3", "n"}
    code, out, err = verihop(*command, "--quiet", "--resume")
    assert (code, err.startswith("Next: ")) == (0, True)
    assert out == f"{index} has this update already: nothing was changed (3 passages).\n"


def test_ids_are_read_from_standard_input(index, verihop, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"p0\np1\n")))
    code, out, _ = verihop("index", "--out", index, "--remove", "@-", "--quiet", "--json")
    found = json.loads(out)
    assert (code, found["changed"], found["passages"], found["update"]["removed"]) == (0, True, 4, 2)
    assert found["corpus_hash"].startswith("passages:")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "Name the corpus to index"),
        (("--add", "more.jsonl"), "Name the index that --add and --remove change: --out FOLDER"),
        (("more.jsonl", "--remove", "p1", "--out", "index"), "omit either, e.g. --add more.jsonl"),
        (("--remove", "p1", "--out", "index", "--overwrite"), "--overwrite is for building an index"),
        (("--remove", "p1", "--out", "index", "--retriever", "dense"), "--retriever is for building an index"),
        (("--remove", " , ", "--out", "index"), "names no id. Example: --remove id1,id2 or --remove @ids.txt"),
        (("--remove", "@lost.txt", "--out", "index"), "lost.txt cannot be read"),
        (("--remove", "@bad.txt", "--out", "index"), "bad.txt is not UTF-8"),
        (("--remove", "p9", "--out", "index"), "index has no passage 'p9'"),
        (("--add", "passages.jsonl", "--out", "index"), "index already has a passage 'p0'"),
        (("--remove", "p1", "--out", "nowhere"), "nowhere contains no index: build one there"),
    ],
)
def test_what_cannot_be_done_is_one_line(options, message, index, verihop, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\n")
    before = (index / "index.json").read_bytes()
    code, out, err = verihop("index", *options, "--quiet")
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert (index / "index.json").read_bytes() == before


@pytest.mark.filterwarnings("default")
def test_a_passage_that_is_a_document_is_noted(corpus, verihop):
    corpus.write_text(json.dumps({"id": "book", "text": "word " * 5000}) + "\n")
    code, _, err = verihop("index", corpus, "--retriever", "bm25", "--quiet")
    assert code == 0
    assert "verihop: note: 1 of 1 passages are longer than 10,000 bytes (about 1,600 words); the longest, 'book'" in err


def questions(path, *gold):
    lines = [{"id": f"q{n}", "question": f"Where is {n}?", "gold_ids": ids} for n, ids in enumerate(gold)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_the_gold_passages_of_questions_are_checked_after_building(corpus, verihop, tmp_path):
    build = ("index", corpus, "--retriever", "bm25", "--quiet", "--overwrite", "--questions")
    _, out, _ = verihop(*build, questions(tmp_path / "a.jsonl", ["p0", "p1"], [], ["p5"]))
    assert out.endswith("All gold passages of 2 questions are in the index.\n")
    _, out, err = verihop(*build, questions(tmp_path / "b.jsonl", ["p0", "lost"], ["p5"]))
    assert "1 of 2 questions have gold passages that the index lacks (e.g. 'lost')" in err
    assert "Note: 1 of 2" in err
    assert len(out.splitlines()) == 1
    _, out, _ = verihop(*build, questions(tmp_path / "c.jsonl", []))
    assert out.endswith("None of the 1 questions names ids of gold passages, so nothing can be checked.\n")
    (tmp_path / "d.jsonl").write_text('{"id": "q", "question": "Where is it?", "gold_titles": ["Town 1"]}\n')
    _, out, _ = verihop(*build, tmp_path / "d.jsonl")
    assert out.endswith(" 1 questions name their gold otherwise: `verihop data gold` finds the ids of the passages.\n")
    _, out, _ = verihop(*build, tmp_path / "b.jsonl", "--json")
    gold = json.loads(out)["gold"]
    assert (gold["questions"], gold["with_gold"], gold["missing"]) == (2, 2, 1)


def test_they_are_checked_after_a_change_and_a_broken_file_is_found_before(index, verihop, tmp_path):
    asked = questions(tmp_path / "a.jsonl", ["p0"])
    change = ("index", "--out", index, "--remove", "p0", "--quiet", "--questions")
    before = (index / "index.json").read_bytes()
    code, _, err = verihop(*change, tmp_path / "lost.jsonl")
    assert (code, (index / "index.json").read_bytes()) == (2, before)
    code, _, err = verihop(*change, asked)
    assert code == 0
    assert "none at all" in err


def removed_from(tmp_path, verihop, names, *options):
    lines = [{"id": name, "text": f"{name} is a passage."} for name in names]
    (tmp_path / "odd.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = tmp_path / "odd"
    assert verihop("index", tmp_path / "odd.jsonl", "--retriever", "bm25", "--out", made, "--quiet")[0] == 0
    code, _, err = verihop("index", "--out", made, *options, "--quiet")
    return code, err, {passage.id for passage in open_index(made)("passage", 9)}


def test_an_id_may_contain_a_comma_and_spaces(tmp_path, verihop):
    (tmp_path / "ids.txt").write_text("a,b\n d \n", encoding="utf-8")
    names = ["a", "a,b", "c,d", " d ", "e"]
    code, _, left = removed_from(tmp_path, verihop, names, "--remove", f"@{tmp_path / 'ids.txt'}", "--remove", "c,d")
    assert (code, left) == (0, {"a", "e"})


def test_a_value_that_can_be_read_in_two_ways_is_refused(tmp_path, verihop):
    code, err, left = removed_from(tmp_path, verihop, ["a", "b", "a,b"], "--remove", "a,b")
    assert (code, left) == (2, {"a", "b", "a,b"})
    assert "names one passage" in err
    assert "--remove @FILE" in err
