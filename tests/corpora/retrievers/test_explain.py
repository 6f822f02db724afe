"""Why a passage was found."""

import pytest

from corpora.index.open import open_index
from corpora.retrievers.explain import BEFORE, Explaining, Place, explain
from corpora.retrievers.own import OwnRetriever
from corpora.retrievers.rerank import Reranker, open_reranker
from signatures.common.errors import UserError

QUERIES = ["amber brook", "which meadow lies north", "zebra", "oasis \ud800 prairie", " "]


@pytest.fixture(scope="module")
def open_as(hybrid_folder, fake_embedder):
    return lambda name, **settings: open_index(hybrid_folder, retriever=name, embedder=fake_embedder, **settings)


def ranks(retriever, query, k=60):
    found = retriever(query, k)
    return {passage.id: (rank, passage.score) for rank, passage in enumerate(found, start=1)}


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("name", ["bm25", "dense"])
def test_a_single_engine_has_the_place_that_is_seen(open_as, name, query):
    retriever = open_as(name)
    found = explain(retriever, query, 7)
    assert [each.passage for each in found] == retriever(query, 7)
    assert [each.places for each in found] == [
        (Place(name, rank, each.passage.score),) for rank, each in enumerate(found, start=1)
    ]


@pytest.mark.parametrize("candidates", [100, 4])
@pytest.mark.parametrize("query", QUERIES)
def test_a_hybrid_has_the_ranks_of_both_rankings(open_as, query, candidates):
    hybrid = open_as("hybrid", candidates=candidates)
    known = {name: ranks(open_as(name), query, max(candidates, 4)) for name in ("bm25", "dense")}
    found = hybrid.explain(query, 4)
    assert [each.passage for each in found] == hybrid(query, 4)
    for each in found:
        expected = [Place(name, *own.get(each.passage.id, (None, None))) for name, own in known.items()]
        assert list(each.places) == expected
        assert any(place.rank for place in each.places)


@pytest.mark.parametrize("name", ["own", "own-light"])
@pytest.mark.parametrize("query", QUERIES)
def test_a_reranker_has_the_places_before_and_the_texts_that_led_to_a_passage(open_as, name, query):
    hybrid = open_as("hybrid", candidates=20)
    reranked = open_reranker(hybrid, name)
    found = explain(reranked, query, 25)
    before = {each.passage.id: (rank, each) for rank, each in enumerate(hybrid.explain(query, 25), start=1)}
    assert [each.passage for each in found] == reranked(query, 25)
    for each in found:
        if each.passage.id in before:
            rank, earlier = before[each.passage.id]
            assert each.places == (*earlier.places, Place(BEFORE, rank, earlier.passage.score))
        else:
            assert name == "own"
            assert each.places
            for place in each.places:
                source = place.by.removeprefix("text of ")
                assert source in before
                assert 1 <= place.rank <= 10


class NewestFirst:
    """Prefers what the query did not retrieve itself."""

    fingerprint = "newest"

    def __call__(self, query, pool):
        ranked = {passage.id for passage in pool.ranked}
        return [float(passage.id not in ranked) for passage in pool.candidates]


def test_a_passage_that_only_a_text_led_to_names_that_passage(open_as):
    words = open_as("bm25")
    first, second = words("amber brook", 2)
    found = explain(Reranker(words, NewestFirst(), NewestFirst(), depth=2), "amber brook", 2)
    texts = {f"text of {each.id}": ranks(words, f"{each.title} {each.text}", 10) for each in (first, second)}
    for passage, places in found:
        assert passage.id not in {first.id, second.id}
        known = [Place(by, *own[passage.id]) for by, own in texts.items() if passage.id in own]
        assert list(places) == known != []


def test_an_own_retriever_is_named_and_any_other_has_no_places(open_as, retriever):
    own = OwnRetriever(open_as("bm25"), "my_module:search", "my_module:search@0123")
    found = explain(own, "amber", 3)
    assert [each.places[0][:2] for each in found] == [("my_module:search", 1), ("my_module:search", 2),
                                                      ("my_module:search", 3)]  # fmt: skip
    assert not isinstance(retriever, Explaining)
    assert {each.places for each in explain(retriever, "harbour master", 2)} == {()}


def test_k_below_one_is_refused(open_as):
    for retriever in (open_as("hybrid"), open_reranker(open_as("bm25"), "own")):
        with pytest.raises(UserError, match="k=0"):
            explain(retriever, "amber", 0)
