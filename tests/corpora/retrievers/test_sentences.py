"""Sentences instead of passages: which are offered, how they are scored and chosen, and what a program is given."""

import copy
import json

import dspy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.retrievers import sentences
from corpora.retrievers.explain import Place, explain
from corpora.retrievers.network import Network
from corpora.retrievers.rerank import Reranker, own_scorers, without_reranking
from corpora.retrievers.sentence_features import FIRST, SECOND, SentencePool, first_features, pool_of
from corpora.retrievers.sentences import (
    Chosen,
    SentenceRetriever,
    SentenceScorer,
    choose,
    cut_to,
    open_sentences,
    own_scorer,
    second_rows,
)
from optimizers.metrics.evidence.context import predicted_facts
from signatures.common.errors import UserError
from signatures.text import split_sentences
from signatures.types import Hop, Passage, Retriever, make_passage
from tests.conftest import ListRetriever

QUESTION = "When was the director of the film Amber Rain born?"
FILM = Passage(
    id="film",
    title="Amber Rain",
    text="Amber Rain is a film of 1990. It was directed by Ada Stone. Critics praised its music.",
    score=0.9,
)
DIRECTOR = Passage(id="ada", title="Ada Stone", text="Ada Stone lives in Rome. She was born in 1950.", score=0.5)
OTHER = Passage(id="other", title="Basalt", text="Basalt is a rock. Nobody directs it.", score=0.1)
PASSAGES = [FILM, DIRECTOR, OTHER]


class SharedWords:
    """Similarity by the share of words in common."""

    fingerprint = "shared words"

    def __call__(self, left, right):
        words = [[set(text.lower().split()) for text in texts] for texts in (left, right)]
        return np.array([[len(a & b) / len(a | b) for b in words[1]] for a in words[0]], dtype=np.float32)


def network(names, **direct):
    """Return a network in which the named features alone count."""
    weights = {"hidden": np.zeros((len(names), 1)), "hidden_bias": [0.0], "out": [0.0], "bias": 0.0}
    return Network({**weights, "direct": [direct.get(name, 0.0) for name in names]}, names, "the test")


def scorer(**direct):
    """Return a scorer in whose second round the named features alone count; in the first one, similarity does."""
    return SentenceScorer(network(FIRST, cosine=1.0), network(SECOND, **direct), SharedWords())


def rows(query, passages=PASSAGES):
    """Return the features of both rounds by name, each with the values of all sentences."""
    pool = pool_of(passages)
    made = scorer().rows(query, pool)
    return pool, {name: made[:, column].tolist() for column, name in enumerate(SECOND)}


@pytest.fixture(scope="module")
def fitted():
    return own_scorer(SharedWords())


def test_passages_are_cut_to_the_chosen_sentences_in_their_order(fitted):
    found = SentenceRetriever(ListRetriever(PASSAGES), scorer(number=1.0, place=-0.1), 3)(QUESTION, 5)
    assert [(each.id, each.title, each.text) for each in found] == [
        ("ada", "Ada Stone", "She was born in 1950."),
        ("film", "Amber Rain", "Amber Rain is a film of 1990. Critics praised its music."),
    ]
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


def test_it_is_a_retriever_that_passes_on_what_the_index_knows(fitted):
    class Known(ListRetriever):
        folder = "index"

        def titles(self, ids):
            return {"film": "Amber Rain"}

    retrieve = SentenceRetriever(Known(PASSAGES), fitted, 4)
    assert isinstance(retrieve, Retriever)
    assert copy.deepcopy(retrieve) is retrieve
    assert (retrieve.folder, retrieve.titles(["film"]), retrieve.missing(["x"])) == (
        "index",
        {"film": "Amber Rain"},
        set(),
    )
    assert retrieve.many([QUESTION, QUESTION], 2) == [retrieve(QUESTION, 2)] * 2


def test_whatever_decides_the_result_is_in_the_fingerprint(fitted):
    below = Reranker(ListRetriever(PASSAGES), *own_scorers())
    made = [
        below,
        SentenceRetriever(below, fitted, 4),
        SentenceRetriever(below, fitted, 5),
        SentenceRetriever(below, fitted, 4, depth=5),
        SentenceRetriever(below, scorer(), 4),
        SentenceRetriever(ListRetriever(PASSAGES), fitted, 4),
    ]
    assert len({each.fingerprint for each in made}) == len(made)
    assert {without_reranking(each.fingerprint) for each in made} == {ListRetriever(PASSAGES).fingerprint}


@given(
    sizes=st.lists(st.integers(0, 4), min_size=1, max_size=6),
    count=st.integers(1, 12),
    k=st.integers(1, 6),
    seed=st.integers(0, 2**16),
)
def test_choice_has_the_best_sentences_that_its_passages_allow(sizes, count, k, seed):
    pool = SentencePool(
        [FILM] * len(sizes), [[f"{place} {n}" for n in range(size)] for place, size in enumerate(sizes)]
    )
    scores = np.random.default_rng(seed).permutation(sum(sizes)).astype(float)
    chosen = choose(pool, scores, count, k)
    picked = {(each.passage, number) for each in chosen for number in each.sentences}
    open_to = sum(sorted((sizes[each.passage] for each in chosen), reverse=True))
    assert len(chosen) <= k
    assert len(picked) == sum(len(each.sentences) for each in chosen) <= count
    assert len(picked) == min(count, open_to) or len(chosen) < k
    assert [each.score for each in chosen] == sorted((each.score for each in chosen), reverse=True)
    by_place = dict(zip(pool.places, scores.tolist(), strict=True))
    for each in chosen:
        assert list(each.sentences) == sorted(each.sentences)
        assert each.score == max(by_place[(each.passage, number)] for number in each.sentences)
    read = {each.passage for each in chosen}
    left = [score for place, score in by_place.items() if place[0] in read and place not in picked]
    assert not left or max(left) < min(by_place[place] for place in picked)


def test_no_more_passages_than_asked_for(fitted):
    found = SentenceRetriever(ListRetriever(PASSAGES), scorer(first=1.0), 3)(QUESTION, 1)
    assert [(each.id, each.text) for each in found] == [("film", FILM.text)]


def test_sentences_of_a_passage_are_used_if_they_are_its_text():
    fields = FILM.model_dump() | {
        "sentences": ["Amber Rain is a film of 1990. It was directed", " by Ada Stone. Critics praised its music."]
    }
    assert pool_of([make_passage(fields)]).sentences[0][1] == "by Ada Stone. Critics praised its music."
    for wrong in (["Amber Rain."], ["Amber Rain", 3], "Amber Rain"):
        assert len(pool_of([make_passage({**fields, "sentences": wrong})]).sentences[0]) == 3
    chosen = sentences.Chosen(0, (1,), 0.5)
    cut = cut_to(make_passage(fields), pool_of([make_passage(fields)]).sentences[0], chosen)
    assert cut.text == "by Ada Stone. Critics praised its music."
    assert cut.metadata["sentences"] == ["Amber Rain is a film of 1990. It was directed", cut.text]


def test_chinese_sentences_are_joined_without_a_blank():
    passage = Passage(id="p", text="琥珀雨是一部电影。导演是石。音乐很好。")
    pool = pool_of([passage])
    assert cut_to(passage, pool.sentences[0], sentences.Chosen(0, (0, 2), 1.0)).text == "琥珀雨是一部电影。音乐很好。"


def test_nothing_to_cut_is_returned_as_it_is(fitted):
    assert SentenceRetriever(ListRetriever([]), fitted, 4)(QUESTION, 3) == []
    blank = [Passage(id="a", text=""), Passage(id="b", text=" ")]
    assert SentenceRetriever(ListRetriever(blank), fitted, 4)(QUESTION, 1) == blank[:1]
    assert [each.id for each in SentenceRetriever(ListRetriever([*blank, FILM]), fitted, 4)(QUESTION, 3)] == ["film"]


def test_features_say_what_a_sentence_shares_with_the_question():
    _, by = rows(QUESTION)
    assert by["question_has_title"] == [1, 1, 1, 0, 0, 0, 0]
    assert by["title_is_named"] == [0, 0, 0, 1, 1, 0, 0]  # "Ada Stone", in the second sentence of the film
    assert by["names_titles"] == pytest.approx([0, 1 / 3, 0, 0, 0, 0, 0])
    assert by["number_asked"] == [1, 0, 0, 0, 1, 0, 0]
    assert by["first"] == [1, 0, 0, 1, 0, 1, 0]
    assert max(by["words_weighted"]) == by["words_weighted"][0] == 1
    assert by["passage_score"] == pytest.approx([1, 1, 1, 0.5, 0.5, 0, 0])
    assert by["compares_first"] == [0] * 7
    assert rows("Is Amber Rain older than Basalt?")[1]["compares_title"] == [1, 1, 1, 0, 0, 1, 1]


def test_second_round_says_what_continues_the_best_sentences():
    pool, _ = rows(QUESTION)
    features = first_features(QUESTION, pool, np.zeros(7))
    scores = np.array([0.2, 0.9, 0.0, 0.1, 0.1, 0.0, 0.0])
    made = second_rows(QUESTION, pool, features, scores, SharedWords())
    by = {name: made[:, column].tolist() for column, name in enumerate(SECOND)}
    assert by["title_in_1"] == [0, 0, 0, 1, 1, 0, 0]  # the best sentence names Ada Stone
    assert by["near_1"][1] == 0  # not with itself
    assert by["near_1"][3] > by["near_1"][5]
    assert by["passage_of_1"] == [1, 0, 1, 0, 0, 0, 0]
    assert by["score_rank"][:2] == [0.5, 1.0]
    assert by["better_in_passage"] == pytest.approx([1 / 3, 0, 2 / 3, 0, 0, 0, 0])


@given(texts=st.lists(st.text(max_size=60), min_size=1, max_size=4), query=st.text(max_size=40))
def test_features_of_any_text_are_finite_and_small(texts, query):
    passages = [Passage(id=str(n), title=text[:9], text=text, score=float(n)) for n, text in enumerate(texts)]
    pool = pool_of(passages)
    if pool.places:
        made = scorer().rows(query, pool)
        assert made.shape == (len(pool.places), len(SECOND))
        assert np.isfinite(made).all()
        assert (made >= -1 - 1e-6).all()
        assert (made <= 2 + 1e-6).all()


def test_shipped_weights_find_the_chain(fitted):
    scores = fitted(QUESTION, pool_of(PASSAGES))
    assert ((scores >= 0) & (scores <= 1)).all()
    best = set(np.argsort(-scores)[:4].tolist())
    assert {1, 4} <= best  # who directed it, and when she was born
    assert max(scores[5:]) < min(scores[[1, 4]])


def test_places_are_those_of_the_whole_passages(fitted):
    class Explained(ListRetriever):
        def explain(self, query, k):
            return [
                sentences.Explained(each, (Place("bm25", rank, each.score),))
                for rank, each in enumerate(self(query, k), 1)
            ]

    retrieve = SentenceRetriever(Explained(PASSAGES), scorer(number=1.0), 2)
    found = explain(retrieve, QUESTION, 3)
    assert [each.passage for each in found] == retrieve(QUESTION, 3)
    assert {each.passage.id: each.places[0].rank for each in found} == {"film": 1, "ada": 2}


@pytest.mark.parametrize("count", [-1, 101, 1.5, True])
def test_a_number_of_sentences_outside_its_range_is_refused(count):
    with pytest.raises(UserError, match="sentences must be a whole number from 1 to 100"):
        open_sentences(ListRetriever(PASSAGES), count)
    with pytest.raises(UserError, match="at least one passage"):
        SentenceRetriever(ListRetriever(PASSAGES), scorer(), 3)(QUESTION, 0)
    with pytest.raises(UserError, match="depth must be a whole number of at least 1"):
        SentenceRetriever(ListRetriever(PASSAGES), scorer(), 3, depth=0)


def test_none_and_nought_read_whole_passages():
    retrieve = ListRetriever(PASSAGES)
    assert open_sentences(retrieve, None) is open_sentences(retrieve, 0) is retrieve


@pytest.mark.parametrize(
    ("content", "cure"),
    [
        (None, "is missing: reinstall verihop, or train the choice of sentences"),
        ("{", "cannot be read"),
        ('{"rounds": [1, 2], "features": []}', "has no weights for these features"),
        ("rounds", "hidden has shape"),
        ("infinite", "is too large"),
    ],
)
def test_damaged_weights_are_one_line_that_says_what_to_do(tmp_path, content, cure):
    path = tmp_path / "weights.json"
    if content in ("rounds", "infinite"):
        stored = json.loads(sentences.WEIGHTS.read_text())
        stored["rounds"][1]["hidden" if content == "rounds" else "bias"] = [[1.0]] if content == "rounds" else 1e999
        content = json.dumps(stored).replace("Infinity", "1e999")
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError, match=cure):
        own_scorer(SharedWords(), path)


def test_supporting_facts_are_counted_in_the_whole_passage():
    whole = Passage(id="p", title="Amber Rain", text="Amber Rain is a film. It is long. Critics praised its music.")
    cut = cut_to(whole, split_sentences(whole.text), Chosen(0, (0, 2), 1.0))
    hop = Hop(question="?", answer="a", evidence="Critics praised its music.", passage_ids=["p"])
    assert cut.text == "Amber Rain is a film. Critics praised its music."
    assert predicted_facts(dspy.Prediction(hops=[hop], passages=[cut])) == {("p", 2)}


def test_a_sentence_whose_words_are_chosen_already_takes_no_place():
    passages = [Passage(id=name, title=name, text="Rome is big. Rome is old.") for name in "ab"]
    pool = pool_of(passages)
    chosen = choose(pool, np.array([4.0, 1.0, 3.0, 2.0]), 2, 2)
    assert [(each.passage, each.sentences) for each in chosen] == [(0, (0,)), (1, (1,))]
