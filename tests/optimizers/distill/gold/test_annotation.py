from pathlib import Path

import pytest

from optimizers.distill.gold.annotation import annotate, sentence_with
from tests.conftest import load_module

toy = load_module(Path(__file__).parent / "conftest.py")


def test_gold_passages_come_in_the_order_of_the_hops():
    gold = toy.annotated(toy.TWO_HOPS)
    assert [passage.id for passage in gold.gold] == ["ossa", "marn"]
    assert [(hop.answer, hop.sentence) for hop in gold.hops] == [
        ("Lake Marn", "It flows into Lake Marn after forty miles."),
        ("Veld", "It lies in the country of Veld."),
    ]


def test_without_a_decomposition_the_passage_that_names_the_other_is_first():
    gold = toy.annotated(toy.NO_STEPS)
    assert [passage.id for passage in gold.gold] == ["ossa", "marn"]
    assert gold.hops == ()


def test_a_question_of_one_passage_is_its_own_hop():
    (hop,) = toy.annotated(toy.ONE_HOP).hops
    assert (hop.question, hop.answer, hop.sentence) == ("when was Tarn built", "1640", "It was built in 1640.")


@pytest.mark.parametrize("change", [{"answers": []}, {"gold_ids": []}, {"gold_ids": ["ossa", "nowhere"]}])
def test_a_question_with_incomplete_gold_gives_nothing(change):
    assert annotate(toy.TWO_HOPS.model_copy(update=change), toy.CORPUS) is None


def test_a_step_without_answer_leaves_no_hops():
    steps = [toy.TWO_HOPS.sub_questions[0].model_copy(update={"answer": None}), toy.TWO_HOPS.sub_questions[1]]
    assert toy.annotated(toy.TWO_HOPS.model_copy(update={"sub_questions": steps})).hops == ()


@pytest.mark.parametrize(
    ("question", "shown", "query"),
    [
        ("TWO_HOPS", set(), "Into which lake does the Ossa flow?"),
        ("TWO_HOPS", {"ossa"}, "In which country does Lake Marn lie?"),
        ("TWO_HOPS", {"ossa", "marn"}, None),
        ("NO_STEPS", set(), "Ossa"),  # the question names it, without what is in parentheses
        ("NO_STEPS", {"ossa"}, "Lake Marn"),  # a passage shown names it
        ("NO_STEPS", {"marn"}, "Ossa"),
    ],
)
def test_what_is_missing_is_asked_with_what_is_known(question, shown, query):
    assert toy.annotated(getattr(toy, question)).missing_query(frozenset(shown)) == query


def test_a_title_that_nothing_names_is_no_query():
    question = toy.NO_STEPS.model_copy(update={"question": "In which country does the river end?"})
    assert toy.annotated(question).missing_query(frozenset()) == "In which country does the river end?"


def test_the_sentence_with_an_answer():
    assert sentence_with("One thing. Two things here.", "two things") == "Two things here."
    assert sentence_with("One thing. Two things here.", "three") is None


def test_a_step_that_is_a_relation_leaves_no_hops():
    steps = [toy.TWO_HOPS.sub_questions[0].model_copy(update={"question": "Ossa >> flows into"})]
    assert toy.annotated(toy.TWO_HOPS.model_copy(update={"sub_questions": steps})).hops == ()


def test_the_answer_is_the_one_that_a_gold_passage_states():
    assert toy.annotated(toy.ONE_HOP.model_copy(update={"answers": ["1641", "1640"]})).answer == "1640"
    assert toy.annotated(toy.TWO_HOPS.model_copy(update={"answers": ["nowhere", "elsewhere"]})).answer == "nowhere"


def test_a_single_passage_has_to_state_the_answer():
    assert annotate(toy.ONE_HOP.model_copy(update={"answers": ["1641"]}), toy.CORPUS) is None
    assert toy.annotated(toy.ONE_HOP.model_copy(update={"answers": ["yes"]})).answer == "yes"


def test_the_annotated_sentence_decides_a_hop_where_it_holds_the_answer():
    sentences = ["Lake Marn is named here.", "The Ossa flows into Lake Marn."]
    changed = toy.CORPUS["ossa"].model_copy(update={"text": " ".join(sentences), "sentences": sentences})
    corpus = {**toy.CORPUS, "ossa": changed}
    question = toy.TWO_HOPS.model_copy(update={"answers": ["Lake Marn"]})
    assert annotate(question, corpus).hops[0].sentence == "The Ossa flows into Lake Marn."
