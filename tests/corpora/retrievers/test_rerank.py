"""Reranking: the contract of a retriever, the order by scores, further candidates, and weights that are refused."""

import copy
import json
import math

import numpy as np
import pytest

from corpora.index.open import open_index
from corpora.retrievers import rerank
from corpora.retrievers.rerank import LinkScorer, Reranker, open_reranker, own_scorers, without_reranking
from corpora.retrievers.rerank_features import NAMES, Pool, pool_features
from signatures.common.errors import UserError
from signatures.types import Passage, Retriever

QUERIES = ["amber brook", "cedar", "", "oasis prairie amber", "zebra"]


class Fixed:
    """Retrieves the listed passages for each text; counts the calls."""

    fingerprint = "fixed"

    def __init__(self, rankings):
        self.rankings, self.asked = rankings, []

    def __call__(self, query, k):
        return self.many([query], k)[0]

    def many(self, queries, k):
        self.asked.append((list(queries), k))
        return [self.rankings.get(query, [])[:k] for query in queries]


class Longest:
    """Prefers long texts."""

    fingerprint = "longest"

    def __call__(self, query, pool):
        return [len(passage.text) for passage in pool.candidates]


def passage(name, text, title="", score=None):
    return Passage(id=name, title=title, text=text, score=score)


def weights(units=2, **changed):
    arrays = {"hidden": np.zeros((len(NAMES), units)), "hidden_bias": np.zeros(units), "out": np.zeros(units)}
    arrays |= {"direct": np.zeros(len(NAMES)), "bias": np.zeros(())}
    return {name: array.tolist() for name, array in arrays.items()} | changed


@pytest.fixture(scope="module")
def hybrid(hybrid_folder, fake_embedder):
    return open_index(hybrid_folder, embedder=fake_embedder)


@pytest.fixture(scope="module")
def own(hybrid):
    return open_reranker(hybrid, "own")


def test_own_reranker_is_a_retriever_that_ranks_best_first(own, hybrid):
    assert isinstance(own, Retriever)
    assert copy.deepcopy(own) is own
    for found in own.many(QUERIES, 7):
        scores = [each.score for each in found]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
        assert len({each.id for each in found}) == len(found) <= 7
    assert own("", 3) == []
    assert len(own("amber", 50)) == 50
    assert own.missing(["p0", "unknown"]) == {"unknown"}
    assert own.titles(["p0", "unknown"]).keys() <= {"p0"}


def test_single_and_batch_agree(own):
    for query, found in zip(QUERIES, own.many(QUERIES, 5), strict=True):
        alone = own(query, 5)
        assert [each.id for each in alone] == [each.id for each in found]
        assert [each.score for each in alone] == pytest.approx([each.score for each in found], abs=1e-4)


def test_none_returns_the_retriever_itself(hybrid):
    assert open_reranker(hybrid, "none") is hybrid


def test_light_reranker_only_reorders_what_was_retrieved(hybrid):
    for query in QUERIES:
        found = open_reranker(hybrid, "own-light")(query, 20)
        assert {each.id for each in found} == {each.id for each in hybrid(query, 20)}


def test_fingerprint_names_scorers_and_retriever(own, hybrid):
    assert without_reranking(own.fingerprint) == hybrid.fingerprint
    assert without_reranking(hybrid.fingerprint) == hybrid.fingerprint
    chosen = Fixed({})
    chosen.fingerprint = f"graph-0123-lm:{'0a' * 8}"
    assert without_reranking(Reranker(chosen, own_scorers()[0]).fingerprint) == "graph-0123"
    assert without_reranking("graph-0123-lm:gpt") == "graph-0123-lm:gpt"
    assert own.fingerprint != Reranker(hybrid, own_scorers()[0]).fingerprint
    assert own.fingerprint != Reranker(hybrid, *own_scorers(), depth=30).fingerprint
    assert LinkScorer(weights()).fingerprint != LinkScorer(weights(bias=1.0)).fingerprint


def test_candidates_are_reordered_and_ties_keep_the_retrievers_order():
    ranking = [passage("a", "xx"), passage("b", "xxx"), passage("c", "xx")]
    found = Reranker(Fixed({"q": ranking}), Longest())("q", 3)
    assert [each.id for each in found] == ["b", "a", "c"]
    assert [each.score for each in found] == [3, 2, 2]


def test_reranked_depth_is_at_least_k():
    retrieve = Fixed({"q": [passage(str(n), "x" * n) for n in range(40)]})
    assert [each.id for each in Reranker(retrieve, Longest(), depth=5)("q", 2)] == ["4", "3"]
    assert len(Reranker(retrieve, Longest(), depth=5)("q", 30)) == 30


def test_texts_of_the_first_passages_retrieve_further_candidates():
    first, second = passage("a", "about Ada", title="Film"), passage("b", "a very long text about her", title="Ada")
    retrieve = Fixed({"q": [first], "Film about Ada": [first, second]})
    assert [each.id for each in Reranker(retrieve, Longest())("q", 5)] == ["a"]
    found = Reranker(retrieve, Longest(), Longest(), found=4)("q", 5)
    assert [each.id for each in found] == ["b", "a"]
    assert retrieve.asked[-1] == (["Film about Ada"], 4)


def test_link_from_the_first_passage_is_a_feature():
    ranking = [
        passage("film", "It was directed by Ada Stone in 1950.", "Grey Harbour (film)", 3.0),
        passage("other", "A painter.", "Bo Lind", 2.0),
        passage("person", "She was born in Oslo.", "Ada Stone", 1.0),
    ]
    rows = pool_features("Where was the director of Grey Harbour born?", Pool(ranking))
    column = {name: rows[:, place].tolist() for place, name in enumerate(NAMES)}
    assert column["linked_from_1"] == [0, 0, 1]
    assert column["linked_from_any"] == [0, 0, 1]
    assert column["question_has_title"] == [1, 0, 0]
    assert column["score"] == [1, 0.5, 0]
    assert column["rank"] == pytest.approx([1, 1 / 2, 1 / 3])
    assert column["new_words_of_question"][0] == 0 < column["new_words_of_question"][2]
    assert column["found_rank"] == [0, 0, 0]


def test_what_a_text_found_is_a_feature():
    first, new = passage("a", "one", "A title", 1.0), passage("n", "new", "New")
    rows = pool_features("question", Pool([first], [[first, new]]))
    column = {name: rows[:, place].tolist() for place, name in enumerate(NAMES)}
    assert column["found_rank"] == [1, 0.5]
    assert column["found_by_first"] == [1, 1]
    assert column["retrieved"] == [1, 0]


@pytest.mark.parametrize("text", ["", "?!", "東京の首都", "a" * 3000])
def test_odd_texts_have_finite_features(text):
    rows = pool_features(text, Pool([passage("a", text, text), passage("b", "", "", 1.0)]))
    assert rows.shape == (2, len(NAMES))
    assert ((rows >= 0) & (rows <= 2)).all()


def test_score_is_the_logistic_of_the_network():
    changed = weights(units=1, hidden_bias=[0.5], out=[2.0], bias=-1.0)
    expected = 1 / (1 + math.exp(1 - 2 * math.tanh(0.5)))
    assert LinkScorer(changed)("q", Pool([passage("a", "x")])) == pytest.approx([expected])


@pytest.mark.parametrize(
    "changed", [{"hidden": [[0.0]]}, {"out": [0.0]}, {"bias": math.nan}, {"direct": None}, {"hidden_bias": "x"}]
)
def test_weights_of_another_shape_are_refused(changed):
    with pytest.raises(UserError, match="weights of the reranker"):
        LinkScorer(weights() | changed)


def test_missing_or_foreign_weights_are_refused(tmp_path):
    with pytest.raises(UserError, match="is missing"):
        own_scorers(tmp_path / "none.json")
    path = tmp_path / "weights.json"
    for content in ({"features": list(NAMES)}, {"features": ["x"], "rounds": [weights(), weights()]}, [1]):
        path.write_text(json.dumps(content))
        with pytest.raises(UserError, match="no weights for these features"):
            own_scorers(path)
    path.write_text("{")
    with pytest.raises(UserError, match=r"weights\.json"):
        own_scorers(path)


def test_numbers_below_one_are_refused(hybrid):
    with pytest.raises(UserError, match="at least 1"):
        Reranker(hybrid, Longest(), depth=0)
    with pytest.raises(UserError, match="k=0"):
        Reranker(hybrid, Longest()).many(["q"], 0)


def test_shipped_weights_name_their_sources():
    stored = json.loads(rerank.WEIGHTS.read_text(encoding="utf-8"))
    assert set(stored["questions"]["measured_on"]) == {"hotpotqa dev", "2wikimultihopqa", "musique"}
    assert stored["questions"]["measured_on"]["2wikimultihopqa"] == 200
    assert stored["questions"]["measured_on"]["musique"] == 30
    assert all(len(digest) == 64 for digest in stored["data"].values())
