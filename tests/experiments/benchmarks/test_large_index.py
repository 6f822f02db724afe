"""Indexes of millions of generated passages, here of a few: the same each time, built and asked once."""

import json
import sys

import numpy as np
import pytest

from corpora.index.build import build_index
from corpora.passages import write_passages
from corpora.questions import Question, write_questions
from corpora.retrievers.embedder import Embedder
from experiments.benchmarks.retriever import large
from tests.corpora.conftest import hashed_words


def test_generated_passages_and_vectors_are_the_same_each_time_and_the_first_of_more():
    few, more = list(large.passages(7)), list(large.passages(20))
    assert few == more[:7]
    assert len({each.id for each in more}) == 20
    words = [each.text for each in more]
    assert (large.Clustered()(words) == large.Clustered()(words)).all()
    assert large.Clustered()(words)[:3].tolist() == large.Clustered()(words[:3]).tolist()


def test_questions_omit_the_most_frequent_words():
    asked = set(" ".join(large.texts(100, 8, 1, 7)).split())
    assert "w7" in asked
    assert not asked & {f"w{number}" for number in range(7)}


def test_vectors_are_nearer_within_a_centre_than_between():
    texts = [f"t{n}" for n in range(20_000)]
    vectors = large.Clustered()(texts)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    centres = [large.zlib.crc32(text.encode()) % large._CENTRES for text in texts]
    places = {}
    for place, centre in enumerate(centres):
        places.setdefault(centre, []).append(place)
    within = [float(vectors[group[0]] @ vectors[group[1]]) for group in places.values() if len(group) > 1]
    between = [float(vectors[a] @ vectors[a + 1]) for a in range(2000) if centres[a] != centres[a + 1]]
    assert min(within) > max(between)


@pytest.mark.slow
def test_the_command_builds_once_asks_every_retriever_and_adds_sizes(tmp_path, monkeypatch, capsys):
    def run(*sizes):
        arguments = ["--work", str(tmp_path / "work"), "--out", str(tmp_path / "out.json"), "--sizes", *sizes]
        monkeypatch.setattr(sys, "argv", ["large", *arguments])
        large.main()
        return json.loads((tmp_path / "out.json").read_text())["indexes"]

    monkeypatch.chdir(large.Path(large.__file__).parents[3])
    first = run("30")["hybrid-30"]
    assert first["passages"] == 30
    assert first["dense_kind"] == "flat"
    assert set(first["retrievers"]) == {"bm25", "dense", "hybrid"}
    assert first["build"]["own_mb"] > 0
    both = run("30", "40")
    assert list(both) == ["hybrid-30", "hybrid-40"]
    assert both["hybrid-30"]["build"] == first["build"]
    lines = [json.loads(line) for line in (tmp_path / "work" / "hybrid-30" / "dense.jsonl").read_text().splitlines()]
    assert sum("id" in line for line in lines) == large.QUESTIONS
    assert sum("open_ms" in line for line in lines) == 1
    assert all(line["found"] for line in lines if "id" in line)


def test_a_killed_measurement_goes_on_with_the_questions_that_are_left(tmp_path):
    write_passages(tmp_path / "passages.jsonl", large.passages(3))
    build_index(tmp_path / "passages.jsonl", tmp_path / "index", retriever="bm25")
    write_questions(tmp_path / "questions.jsonl", (Question(id=f"q{n}", question="Who is w7?") for n in range(4)))
    out = tmp_path / "out.jsonl"
    arguments = tmp_path / "index", "bm25", tmp_path / "questions.jsonl", out, Embedder("unused", encode=hashed_words)
    large.ask(*arguments)
    lines = out.read_bytes().splitlines(keepends=True)
    out.write_bytes(b"".join(lines[:3]) + lines[3][:20])
    large.ask(*arguments)
    large.ask(*arguments)
    ids = [json.loads(line).get("id", "opened") for line in out.read_text().splitlines()]
    assert ids == ["opened", "q0", "q1", "opened", "q2", "q3"]
