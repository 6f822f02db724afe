"""Replies that name no query or no inference: nothing is searched for, kept or shown as a demonstration."""

import pytest

from programs.genground import GenGround
from programs.lms.adapter import JsonForm
from programs.multi_step.multihop import MultiHop
from programs.retro_rag import RetroRAG
from programs.self_completion import SelfCompletion
from tests.programs.fakes import traced
from tests.programs.retro_rag import script as rounds
from tests.programs.self_completion import scripted_story as completion


@pytest.mark.parametrize("queries", [["None"], ["(none)"], ["None needed"], ["Here are the queries:"], ["N/A", "无"]])
def test_completion_ends_without_a_query(scripted, queries):
    scripted(completion.replies([completion.GAP], [queries]))
    shelves = completion.Shelves(completion.ids(5))
    result = SelfCompletion(shelves)("Question?")
    assert ([query for query, _ in shelves.asked], result.hops[-1].verdict) == (["Question?"], "forced")


def test_an_announcement_before_the_queries_is_none(scripted):
    queries = ["Here are the queries:", "sea of Quillon"]
    scripted(completion.replies([completion.GAP, completion.reflection()], [queries]))
    result = SelfCompletion(completion.Shelves(completion.ids(5), **{"sea of Quillon": ["b"]}))("Question?")
    assert result.hops[1].question == "sea of Quillon"


@pytest.mark.parametrize("query", ["None", "N/A", "No further query is needed.", "Question", "question?"])
def test_a_round_without_a_new_query_searches_for_the_question(scripted, query):
    scripted(rounds.Story(searching=query), JsonForm(probability_mode="verbalised"))
    search = rounds.Batches()
    RetroRAG(search, max_rounds=2)("Question?")
    assert search.queries == ["Question?", "Question?"]


def test_a_query_of_an_earlier_round_is_not_searched_for_again(scripted):
    said = iter(["sea of Quillon", "birth of Merrow", "The sea of Quillon!", "last one"])
    scripted(rounds.Story(searching=lambda user: next(said)), JsonForm(probability_mode="verbalised"))
    search = rounds.Batches()
    program = RetroRAG(search, max_rounds=5)
    _, trace = traced(program, "Question?")
    left = [output.query for called, _, output in trace if called is program.searching]
    assert search.queries == ["Question?", "sea of Quillon", "birth of Merrow", "Question?", "last one"]
    assert left == ["sea of Quillon", "birth of Merrow", "last one"]


def test_inferences_that_say_nothing_are_not_weighed(scripted):
    story = rounds.Story(inferring=["None", "N/A", "Nothing follows."])
    scripted(story, JsonForm(probability_mode="verbalised"))
    RetroRAG(rounds.Batches(), max_rounds=2)("Question?")
    assert (story.count("relevance"), story.count("attribution")) == (0, 0)


def test_multihop_searches_for_the_question_instead(scripted, retriever):
    scripted(lambda system, user: {"reasoning": "r", "query": "None", "answer": "a"})
    program = MultiHop(retriever)
    _, trace = traced(program, "Question?")
    kept = [output for _, _, output in trace if "query" in output]
    assert (retriever.queries, kept) == (["Question?"] * 2, [])


def test_genground_grounds_the_question_where_the_sub_question_says_none(scripted, retriever):
    reply = {"finished": False, "sub_question": "No further question is needed.", "answer": "x", "evidence": ""}
    scripted(lambda system, user: reply)
    assert GenGround(retriever, k=3, max_hops=1)("Question?").hops[0].question == "Question?"
