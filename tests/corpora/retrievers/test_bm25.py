import json

import numpy as np
import pytest

from corpora.index.build import build_index
from corpora.index.open import open_index
from corpora.retrievers.bm25 import Bm25Engine, build_bm25, query_stems
from corpora.retrievers.bm25s_reference import Bm25sEngine, build_bm25s
from corpora.retrievers.settings import make_settings
from corpora.retrievers.store import PassageStore
from signatures.common.errors import UserError

QUERIES = [
    "amber brook",
    "which meadow lies north of the harbor",
    "cedar cedar lagoon",
    "oasis",
    "fjord ember delta inlet",
]


@pytest.fixture(scope="module")
def both(hybrid_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("both")
    store = PassageStore(hybrid_folder)
    build_bm25(folder / "tantivy", store.records())
    build_bm25s(folder / "bm25s", store.records(), k1=1.2, b=0.75, title_repeats=1)
    count = len(store)
    bm25s = Bm25sEngine(folder / "bm25s", passages=count)
    return Bm25Engine(folder / "tantivy", passages=count, title_boost=0), bm25s


@pytest.mark.parametrize("query", QUERIES)
def test_the_reference_gives_the_same_scores_up_to_its_constant_factor(both, query):
    ours, reference = (engine.rank([query], 60)[0] for engine in both)
    by_row = dict(zip(reference.rows.tolist(), reference.scores.tolist(), strict=True))
    assert set(by_row) == set(ours.rows.tolist())
    np.testing.assert_allclose(ours.scores, [2.2 * by_row[row] for row in ours.rows.tolist()], rtol=1e-4)


def test_free_k1_and_b_change_the_reference(hybrid_folder, tmp_path):
    store = PassageStore(hybrid_folder)
    for name, k1 in (("low", 0.1), ("high", 3.0)):
        build_bm25s(tmp_path / name, store.records(), k1=k1, b=0.0, title_repeats=1)
    low, high = (
        Bm25sEngine(tmp_path / name, passages=len(store)).rank(["amber"], 5)[0].scores for name in ("low", "high")
    )
    assert not np.allclose(low, high)


def test_a_title_match_counts_more_with_title_boost(tmp_path):
    lines = [
        {"id": "body", "title": "Rivers", "text": "The otter and the otter swim here often"},
        {"id": "title", "title": "Otter", "text": "An animal of rivers and seas that swims often and well"},
    ]
    path = tmp_path / "passages.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    build_index(path, tmp_path / "index", retriever="bm25")
    plain = open_index(tmp_path / "index", title_boost=0)
    boosted = open_index(tmp_path / "index", title_boost=5)
    assert [passage.id for passage in plain("otter", 2)] == ["body", "title"]
    assert [passage.id for passage in boosted("otter", 2)] == ["title", "body"]


def test_function_words_leave_a_query_unless_it_has_nothing_else():
    assert query_stems("Who was the founder of the harbours?") == ["founder", "harbour"]
    assert query_stems("The Who") == ["the", "who"]
    assert query_stems("?! ...") == []


HOSTILE = [
    "title:amber AND -brook",
    '"unclosed phrase',
    "(((",
    "amber^1e9",
    "a:b:c",
    "*",
    "[a TO z]",
    "\\",
    "amber~2",
    "/re.*/",
    "NOT NOT",
    "+",
    "\0",
    "amber\ud800",
    "{}",
    "'; DROP TABLE",
    "amber " * 3000,
]


@pytest.mark.parametrize("query", HOSTILE)
def test_query_text_is_never_read_as_query_syntax(hybrid_folder, query):
    retrieve = open_index(hybrid_folder, retriever="bm25")
    found = retrieve(query, 5)
    if "amber" in query:
        assert found
        assert all("amber" in f"{passage.title} {passage.text}" or "brook" in passage.text for passage in found)


def test_a_minus_sign_excludes_nothing(hybrid_folder):
    retrieve = open_index(hybrid_folder, retriever="bm25")
    assert retrieve("amber -brook", 10) == retrieve("amber brook", 10)


@pytest.mark.parametrize("name", ["bm25", "bm25s"])
def test_queries_without_a_known_word_find_nothing(tmp_path, corpus, name):
    build_index(corpus, tmp_path / name, retriever=name)
    retrieve = open_index(tmp_path / name)
    assert retrieve.many(["", "   ", "?!", "the of", "zebra"], 3) == [[], [], [], [], []]


@pytest.mark.parametrize("name", ["bm25", "bm25s"])
def test_equal_scores_are_in_corpus_order_even_at_the_cut(tmp_path, name):
    path = tmp_path / "passages.jsonl"
    path.write_text("".join(json.dumps({"id": f"p{n}", "text": "the same words"}) + "\n" for n in range(100)))
    build_index(path, tmp_path / name, retriever=name)
    retrieve = open_index(tmp_path / name)
    assert [passage.id for passage in retrieve("same words", 7)] == [f"p{n}" for n in range(7)]


def test_passages_without_any_word_can_be_indexed(tmp_path):
    path = tmp_path / "passages.jsonl"
    path.write_text('{"id": "a", "text": "..."}\n{"id": "b", "text": "!"}\n')
    for name in ("bm25", "bm25s"):
        build_index(path, tmp_path / name, retriever=name)
        assert open_index(tmp_path / name)("anything", 3) == []


def test_settings_out_of_range_are_named():
    with pytest.raises(UserError, match=r"b=2.0.*title_bost"):
        make_settings(b=2.0, title_bost=1)
