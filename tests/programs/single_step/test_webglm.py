"""WebGLM: the references, the marks of the response, and the short answer."""

import pytest

from programs.catalog import build
from programs.single_step.webglm import WebGLM
from signatures.types import Passage
from tests.programs.fakes import Fake, traced

QUESTION = "Who is the harbour master of Quillon?"
RESPONSE = "The harbour master is Ansa Merrow [2]. Fog is common [1][9]."


def story(response=RESPONSE, short="Ansa Merrow"):
    return lambda system, user: {"response": response} if "numbers of the passages" in system else {"answer": short}


class Depths(Fake):
    """Returns the first k passages."""

    def __init__(self, passages):
        super().__init__()
        self.passages = passages

    def find(self, query, k):
        return self.passages


def last_first(left, right):
    """Find a text the closer the later it comes."""
    assert len(left) == 1
    return [[float(place) for place in range(len(right))]]


def test_the_first_k_of_the_retriever_are_read_and_marks_are_positions_in_them(scripted, passages):
    engine = scripted(story())
    retrieve = Depths(passages[3:])
    result = WebGLM(retrieve, k=2)(QUESTION)
    assert retrieve.asked == [(QUESTION, 2)]
    assert [passage.id for passage in result.passages] == ["p3", "p4"]
    assert (result.answer, result.response, result.citations) == ("Ansa Merrow", RESPONSE, ["p4", "p3"])
    assert (result.hops, result.stop_reason) == ([], "done")
    assert "[1] Title 3: Filler" in engine.prompts[0]
    assert "[2] Title 4: The harbour master" in engine.prompts[0]
    assert "[1] The harbour master is Ansa Merrow. Fog is common." in engine.prompts[1]


@pytest.mark.parametrize("given", [False, True])
def test_a_similarity_ranks_many_and_keeps_the_best(scripted, passages, given):
    engine = scripted(story())
    retrieve = Depths(passages)
    program = WebGLM(retrieve, similarity=last_first, k=2, candidates=6)
    result = program(QUESTION, passages=passages[:6] if given else None)
    assert retrieve.asked == ([] if given else [(QUESTION, 6)])
    assert [passage.id for passage in result.passages] == ["p5", "p4"]
    assert engine.prompts[0].index("Title 5") < engine.prompts[0].index("Title 4")
    assert result.citations == ["p4", "p5"]


def test_more_references_than_candidates_are_still_found(scripted, passages):
    scripted(story())
    retrieve = Depths(passages)
    assert len(WebGLM(retrieve, similarity=last_first, k=4, candidates=2)(QUESTION).passages) == 4


def test_fixed_contexts_are_read_in_order_without_a_similarity(scripted, passages):
    scripted(story())
    result = WebGLM(k=1)(QUESTION, passages=[*passages[3:6], passages[3]])
    assert [passage.id for passage in result.passages] == ["p3", "p4", "p5"]


@pytest.mark.parametrize("fixed", [[], None], ids=["given none", "found none"])
@pytest.mark.parametrize("similarity", [None, last_first])
def test_without_references_nobody_is_asked(scripted, similarity, fixed):
    engine = scripted(story())
    result = WebGLM(Depths([]), similarity=similarity)(QUESTION, passages=fixed)
    assert (result.answer, result.response, result.abstained, result.stop_reason) == ("", "", True, "nothing found")
    assert engine.requests == []


def test_a_response_that_declines_is_an_abstention_and_no_demonstration(scripted, passages):
    scripted(story("The passages do not say who it is."))
    program = WebGLM(Depths(passages))
    result, trace = traced(program, QUESTION)
    assert trace == []
    assert (result.answer, result.abstained) == ("", True)


def test_an_unparseable_response_abstains_and_an_unparseable_short_answer_leaves_the_response(scripted, passages):
    scripted(lambda system, user: "?")
    result = WebGLM(Depths(passages))(QUESTION)
    assert (result.abstained, result.stop_reason, len(result.passages)) == (True, "unparseable", 5)
    scripted(lambda system, user: {"response": RESPONSE} if "numbers of the passages" in system else "?")
    assert WebGLM(Depths(passages))(QUESTION).answer == "The harbour master is Ansa Merrow. Fog is common."


@pytest.mark.parametrize("short", [True, False])
def test_the_call_bound_is_reached_exactly(scripted, passages, short):
    engine = scripted(story())
    program = build("webglm", Depths(passages), short=short)
    result = program(QUESTION)
    assert len(engine.requests) == program.max_calls() == 1 + short
    assert result.answer == ("Ansa Merrow" if short else "The harbour master is Ansa Merrow. Fog is common.")


def test_chinese_responses_have_marks_and_short_answers(scripted):
    scripted(story("港务长是安莎【1】。", "安莎"))
    result = WebGLM()("港务长是谁？", passages=[Passage(id="c", text="港务长是安莎。")])
    assert (result.answer, result.citations) == ("安莎", ["c"])
