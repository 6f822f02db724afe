import copy
from concurrent.futures import ThreadPoolExecutor

import pytest

from corpora.index.open import open_index
from corpora.retrievers.rerank import open_reranker
from corpora.retrievers.store import PassageStore, write_store
from signatures.common.errors import UserError
from signatures.types import Passage, Retriever

QUERIES = [
    "amber brook",
    "cedar",
    "which meadow lies north",
    "",
    "oasis prairie amber",
    "zebra",
] * 12  # enough for a batch to be spread over threads
NAMES = ["bm25", "dense", "hybrid"]


@pytest.fixture(scope="module")
def retrievers(hybrid_folder, fake_embedder):
    return {name: open_index(hybrid_folder, retriever=name, embedder=fake_embedder) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_single_and_batch_agree(retrievers, name):
    retrieve = retrievers[name]
    batch = retrieve.many(QUERIES, 7)
    for query, found in zip(QUERIES, batch, strict=True):
        alone = retrieve(query, 7)
        assert [passage.id for passage in alone] == [passage.id for passage in found]
        assert [passage.score for passage in alone] == pytest.approx([passage.score for passage in found], abs=2e-5)


@pytest.mark.parametrize("name", NAMES)
def test_passages_come_best_first_with_their_scores_and_never_twice(retrievers, name):
    assert isinstance(retrievers[name], Retriever)
    for found in retrievers[name].many(QUERIES, 20):
        scores = [passage.score for passage in found]
        assert scores == sorted(scores, reverse=True)
        assert len({passage.id for passage in found}) == len(found) <= 20
        assert all(isinstance(passage, Passage) for passage in found)


@pytest.mark.parametrize("name", NAMES)
def test_eight_threads_get_what_one_gets(retrievers, name):
    retrieve = retrievers[name]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda query: retrieve(query, 5), QUERIES)) == [retrieve(query, 5) for query in QUERIES]


@pytest.mark.parametrize("name", NAMES)
def test_asking_for_more_than_there_is_gives_what_there_is(retrievers, name):
    found = retrievers[name]("amber", 10**9)
    assert 0 < len(found) <= 60
    assert found[:3] == retrievers[name]("amber", 3)


@pytest.mark.parametrize("name", NAMES)
def test_blank_queries_find_nothing(retrievers, name):
    assert retrievers[name]("  \n", 3) == []
    assert retrievers[name].many([], 3) == []


@pytest.mark.parametrize("k", [0, -1])
def test_k_below_one_is_refused_by_value(retrievers, k):
    with pytest.raises(UserError, match=f"k={k}"):
        retrievers["bm25"]("amber", k)


def test_one_text_in_place_of_a_list_is_refused(retrievers):
    with pytest.raises(TypeError, match="list of queries"):
        retrievers["bm25"].many("amber", 3)


def test_copies_of_programs_share_their_index(retrievers):
    assert copy.deepcopy(retrievers["hybrid"]) is retrievers["hybrid"]


def test_the_hybrid_gives_candidates_of_words_alone_their_cosine(hybrid_folder, fake_embedder):
    one = open_index(hybrid_folder, embedder=fake_embedder, candidates=1)
    dense = {
        passage.id: passage.score
        for passage in open_index(hybrid_folder, retriever="dense", embedder=fake_embedder)("oasis", 60)
    }
    words = open_index(hybrid_folder, retriever="bm25")("oasis", 1)[0]
    near = max(dense, key=lambda name: dense[name])
    scores = {passage.id: passage.score for passage in one("oasis", 1)}
    top = dense[near] + 1
    expected = {near: 0.7, words.id: 0.3 + 0.7 * (dense[words.id] + 1) / top}
    best = max(expected, key=lambda name: expected[name])
    assert scores[best] == pytest.approx(expected[best], abs=1e-4)


def test_fingerprints_change_with_what_changes_results_and_with_nothing_else(hybrid_folder, fake_embedder):
    def fingerprint(**settings):
        return open_index(hybrid_folder, embedder=fake_embedder, **settings).fingerprint

    known = {
        fingerprint(),
        fingerprint(dense_weight=0.5),
        fingerprint(title_boost=0),
        fingerprint(candidates=50),
        fingerprint(retriever="bm25"),
        fingerprint(retriever="bm25", title_boost=0),
        fingerprint(retriever="dense"),
    }
    assert len(known) == 7
    assert fingerprint() == fingerprint()
    assert fingerprint(retriever="bm25", dense_weight=0.1) == fingerprint(retriever="bm25")


def test_ids_that_no_passage_has_are_found_without_reading_texts(tmp_path):
    names = ["a", "bb", "ab", "alû", "x" * 30]
    write_store(tmp_path, [Passage(id=name, title="bb", text="a zz") for name in names])
    store = PassageStore(tmp_path)
    assert store.missing(["zz", "alû", "a", "b", "lost \ud800"]) == {"zz", "b", "lost \ud800"}
    assert store.missing(names, block=2) == set()
    assert store.missing(["late", "x" * 30], block=1) == {"late"}
    assert store.missing([]) == set()
    rows = store.rows_of([*names, "late"], block=2)
    assert rows == {name: row for row, name in enumerate(names)}


@pytest.mark.parametrize("name", NAMES)
def test_an_index_knows_which_ids_it_lacks(retrievers, name):
    known = retrievers[name](QUERIES[0], 1)[0].id
    assert retrievers[name].missing([known, "nowhere"]) == {"nowhere"}


@pytest.mark.parametrize("name", NAMES)
def test_an_index_names_titles_by_id(retrievers, name):
    found = retrievers[name](QUERIES[0], 3)
    titles = retrievers[name].titles([*(passage.id for passage in reversed(found)), "nowhere"])
    assert titles == {passage.id: passage.title for passage in found if passage.title}
    assert retrievers[name].titles([]) == {}
    ids = [passage.id for passage in reversed(found)]
    whole = retrievers[name].passages([ids[0], "nowhere", *ids])
    assert [passage.id for passage in whole] == ids
    assert whole == [passage.model_copy(update={"score": None}) for passage in reversed(found)]
    assert retrievers[name].passages([]) == []


def test_a_precision_that_does_not_exist_is_refused_with_every_retriever(retrievers, hybrid_folder):
    for name in retrievers:
        with pytest.raises(UserError, match="Unknown precision 'f8'"):
            open_index(hybrid_folder, retriever=name, precision="f8")


def test_a_retriever_knows_its_folder(hybrid_folder, fake_embedder, monkeypatch):
    monkeypatch.chdir(hybrid_folder.parent)
    retrieve = open_index(hybrid_folder.name, embedder=fake_embedder)
    assert retrieve.folder == open_reranker(retrieve, "own-light").folder == hybrid_folder
