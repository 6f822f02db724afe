"""Rewrite-retrieve-read: the queries that are searched for, what is read, and LangChain's form."""

import pytest

from programs.catalog import build
from programs.single_step.rrr import RRR
from signatures.types import Passage
from tests.programs.fakes import Fake, traced

QUESTION = "In which sea lies the birthplace of the harbour master?"


class Shelves(Fake):
    """Finds for each query the passages of its shelf."""

    def __init__(self, **shelves):
        super().__init__()
        self.shelves = shelves

    def find(self, query, k):
        words = [word for word in self.shelves if word in query]
        return [Passage(id=id, text=f"Text of {id}.") for word in words for id in self.shelves[word].split()]


def story(queries=("harbour master", "island sea"), answer="Grey Sea"):
    """Reply as an LM that writes these queries and reads this answer."""

    def reply(system, user):
        if "Write the search engine queries" in system:
            return {"reasoning": "Two facts.", "queries": list(queries)}
        if "Turn the question into one query" in system:
            return {"query": queries[0]}
        if "full sentences" in system:
            return {"response": f"It lies in the {answer}."}
        return {"answer": "from memory" if "from what you know" in system else answer}

    return reply


def test_each_query_is_searched_for_and_all_that_is_found_is_read_once_in_order(scripted):
    engine = scripted(story())
    shelves = Shelves(master="a b c", island="b d")
    result = RRR(shelves, k=2)(QUESTION)
    assert shelves.asked == [("harbour master", 2), ("island sea", 2)]
    assert [passage.id for passage in result.passages] == ["a", "b", "d"]
    assert (result.answer, result.response, result.stop_reason) == ("Grey Sea", "Grey Sea", "done")
    assert result.details == {"queries": ["harbour master", "island sea"]}
    first, second = engine.prompts
    assert QUESTION in first
    assert "[1] Text of a.\n[2] Text of b.\n[3] Text of d." in second
    assert QUESTION in second
    assert "harbour master\n" not in second


def test_queries_that_repeat_or_say_nothing_are_left_out_and_the_rest_is_cut(scripted):
    scripted(story(["None", "harbour master", "The harbour master!", "island sea", "fog"]))
    shelves = Shelves(master="a", island="b", fog="c")
    result = RRR(shelves, max_queries=2)(QUESTION)
    assert [query for query, _ in shelves.asked] == result.details["queries"] == ["harbour master", "island sea"]


@pytest.mark.parametrize("queries", [[], ["None"], ["Here are the queries:"]])
@pytest.mark.parametrize("rewrite", ["several", "one"])
def test_without_a_query_the_question_is_searched_for_and_the_reply_is_no_demonstration(scripted, queries, rewrite):
    scripted(story(queries or [""]))
    shelves = Shelves(sea="a")
    program = RRR(shelves, rewrite=rewrite)
    result, trace = traced(program, QUESTION)
    assert [predictor for predictor, *_ in trace] == [program.reading]
    assert result.details["queries"] == [QUESTION]
    assert [passage.id for passage in result.passages] == ["a"]


def test_an_unparseable_rewriting_searches_for_the_question_and_an_unparseable_reading_abstains(scripted):
    scripted(lambda system, user: "?")
    shelves = Shelves(sea="a")
    result = RRR(shelves)(QUESTION)
    assert [query for query, _ in shelves.asked] == [QUESTION]
    assert (result.answer, result.abstained, result.stop_reason) == ("", True, "unparseable")


def test_langchains_form_writes_one_query_and_a_long_answer_that_the_shared_reader_shortens(scripted):
    engine = scripted(story(["island sea\nThis query is better."]))
    shelves = Shelves(island="a b")
    program = build("rrr", shelves, preset="langchain")
    result = program(QUESTION)
    assert shelves.asked == [("island sea", 5)]
    assert (result.answer, result.response) == ("Grey Sea", "It lies in the Grey Sea.")
    assert "reasoning" not in engine.prompts[0]
    assert "[1] It lies in the Grey Sea." in engine.prompts[2]
    assert len(engine.requests) == program.max_calls() == 3


def test_a_long_answer_that_declines_is_an_abstention_and_an_unparseable_one_is_none(scripted):
    declines = {"response": "The passages do not say."}
    scripted(lambda system, user: declines if "full sentences" in system else {"query": "island"})
    result = RRR(Shelves(island="a"), rewrite="one", reader="long")(QUESTION)
    assert (result.answer, result.abstained, result.response) == ("", True, "The passages do not say.")
    scripted(lambda system, user: "?" if "full sentences" in system else {"query": "island"})
    result = RRR(Shelves(island="a"), rewrite="one", reader="long")(QUESTION)
    assert (result.abstained, result.stop_reason) == (True, "unparseable")


def test_fixed_contexts_are_read_without_a_query(scripted, passages):
    engine = scripted(story(answer="Ansa Merrow"))
    shelves = Shelves()
    result = RRR(shelves)(QUESTION, passages=passages[3:5])
    assert (shelves.asked, len(engine.requests)) == ([], 1)
    assert [passage.id for passage in result.passages] == ["p3", "p4"]
    assert (result.citations, result.details) == (["p4"], {"queries": []})


@pytest.mark.parametrize("reader", ["short", "long"])
@pytest.mark.parametrize("fixed", [[], None], ids=["given none", "found none"])
def test_with_nothing_to_read_the_answer_is_from_memory(scripted, reader, fixed):
    engine = scripted(story())
    result = RRR(Shelves(), reader=reader)(QUESTION, passages=fixed)
    assert (result.answer, result.response, result.passages) == ("from memory", "from memory", [])
    assert len(engine.requests) == (1 if fixed == [] else 2)


def test_a_program_without_retriever_and_contexts_says_so(scripted):
    engine = scripted(story())
    with pytest.raises(ValueError, match="RRR has no retriever"):
        RRR()(QUESTION)
    assert engine.requests == []


def test_chinese_queries_that_repeat_are_searched_for_once(scripted):
    scripted(story(["港务长 是谁", "港务长是谁？", "岛 在哪片海"], "灰海"))
    shelves = Shelves(港务长="a", 岛="b")
    result = RRR(shelves)("港务长的出生地在哪片海？")
    assert [query for query, _ in shelves.asked] == ["港务长 是谁", "岛 在哪片海"]
    assert result.answer == "灰海"


@pytest.mark.parametrize("knobs", [{}, {"rewrite": "one"}, {"reader": "long"}])
def test_the_call_bound_is_reached_exactly(scripted, knobs):
    engine = scripted(story())
    program = RRR(Shelves(master="a b", island="c"), **knobs)
    program(QUESTION)
    assert len(engine.requests) == program.max_calls()
