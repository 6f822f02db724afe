"""DSP's metric for demonstrations of a multi-hop program: each way in which a trajectory fails."""

import dspy
import pytest

from optimizers.metrics.catalog import get_metric
from optimizers.metrics.evidence.context import faults, nearly_equal
from optimizers.metrics.families.trajectories import multihop_trace
from optimizers.metrics.metric import Need, lacking
from signatures.types import Hop, Passage

BRIDGE = Passage(id="bridge", title="Old Bridge", text="The Old Bridge was built by Ansa Merrow.")
ANSA = Passage(id="ansa", title="Ansa Merrow", text="Ansa Merrow was born in Quillon.")
QUESTION = "Where was the builder of the Old Bridge born?"
QUERIES = ("Who built the Old Bridge?", "Where was Ansa Merrow born?")
EXAMPLE = dspy.Example(question=QUESTION, answers=["Quillon"], gold_ids=["bridge", "ansa"]).with_inputs("question")
NAMES = ("multihop_trace[em]", "multihop_trace[acc]", "multihop_trace[dspy]")


def run(*queries, answer="Quillon", passages=(BRIDGE, ANSA)):
    hops = [Hop(question=query, answer="") for query in queries or QUERIES]
    return dspy.Prediction(answer=answer, passages=list(passages), hops=hops)


def scores(prediction, example=EXAMPLE):
    return [get_metric(name)(example, prediction) for name in NAMES]


def test_a_right_answer_after_searches_that_found_the_evidence_is_a_demonstration():
    assert scores(run()) == [1.0, 1.0, 1.0]
    assert scores(run(QUESTION, QUERIES[1])) == [1.0, 1.0, 1.0]  # nothing was read before the first query


def test_a_wrong_answer_fails_and_one_that_contains_the_gold_only_passes_cover_em():
    assert scores(run(answer="Marle")) == [0.0, 0.0, 0.0]
    assert scores(run(answer="the town of Quillon")) == [0.0, 1.0, 0.0]


def test_a_right_answer_without_all_the_evidence_fails():
    assert scores(run(passages=[ANSA])) == [0.0, 0.0, 1.0]  # DSPy asks for one passage that states the answer
    assert scores(run(passages=[BRIDGE])) == [0.0, 0.0, 0.0]


def test_a_query_of_more_than_a_hundred_characters_fails():
    assert scores(run("x" * 100, QUERIES[1])) == [1.0, 1.0, 1.0]
    assert scores(run("x" * 101, QUERIES[1])) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("queries", "said"),
    [
        (("bridge builder", "The bridge builder?"), "Query 2 repeats query 1."),
        ((QUERIES[0], QUESTION), "Query 2 repeats the question."),
        ((QUERIES[0], QUESTION.replace("Where was", "Where exactly was")), "Query 2 repeats the question."),
        ((*QUERIES, "Ansa Merrow: where was she born"), "Query 3 repeats query 2."),
    ],
)
def test_a_later_query_that_repeats_the_question_or_an_earlier_one_fails(queries, said):
    assert scores(run(*queries)) == [0.0, 0.0, 0.0]
    assert faults(QUESTION, queries) == [said]


def test_two_queries_are_nearly_equal_from_an_f1_of_four_fifths():
    assert nearly_equal("v w x y z", "v w x y q")
    assert not nearly_equal("w x y z", "w x y q")
    assert nearly_equal("", "?")
    assert not nearly_equal("x", "")


@pytest.mark.parametrize("query", ["v w x y z", "Z y x w, v!", "v w x y q", "v w x", "An x", "v w x y z v w x y z"])
def test_the_measure_is_that_of_dspy(query):
    example, prediction = dspy.Example(answer="v w x y z"), dspy.Prediction(answer=query)
    assert nearly_equal(query, "v w x y z") == dspy.evaluate.answer_exact_match(example, prediction, frac=0.8)


def test_chinese_queries_are_compared_by_their_characters():
    question, first = "老桥的建造者出生在哪里？", "谁建造了老桥？"
    assert faults(question, [first, "安莎出生在哪里？"]) == []
    assert faults(question, [first, "是谁建造了老桥"]) == ["Query 2 repeats query 1."]


def test_without_gold_it_is_undefined():
    assert scores(run(), EXAMPLE.without("gold_ids")) == [None, None, 1.0]
    assert scores(run(), EXAMPLE.without("answers")) == [None, None, None]
    assert scores(run(answer="yes"), EXAMPLE.copy(answers=["yes"])) == [1.0, 1.0, None]
    assert Need.HOPS in lacking(EXAMPLE, dspy.Prediction(answer="Quillon"))


def test_any_score_of_the_answer_takes_the_place_of_exact_match():
    half = multihop_trace(lambda example, prediction: 0.5, name="mine", says="Half a point")
    assert half(EXAMPLE, run()) == 0.5
    assert half(EXAMPLE, run(passages=[ANSA])) == 0.0
    assert half.definition.startswith("Half a point where all gold passages were read and no query")
