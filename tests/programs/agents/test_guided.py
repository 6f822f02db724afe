"""The guided form, in which each turn offers only the actions that can be done."""

import re

import pytest

from programs.agents.a_rag import ARAG
from programs.agents.react import ReAct
from programs.agents.search_o1 import SearchO1
from programs.agents.search_r1 import SearchR1
from programs.lms.adapter import ChatForm, JsonForm
from tests.programs.agents import library as story
from tests.programs.fakes import block, traced

AGENTS = [ReAct, SearchR1, SearchO1, ARAG]
READER = "Answer the question with what the passages say"
EXTRACTION = "Read the passages found for the query"
LONG = story.page("q", "Quillon", " ".join(f"Sentence {number} is here." for number in range(9)) + " Ansa rules Tren.")


def small(cls, library, **knobs):
    return cls(library, **cls.PRESETS["small"] | knobs)


def do(action, query="", answer=""):
    return {"thought": "", "action": action, "query": query, "answer": answer}


def offered(system):
    return re.search(r"action \(one of ([^)]*)\)", system)[1].split(", ")


def others(answer="Tren"):
    return {READER: {"answer": answer}, EXTRACTION: {"information": "Ansa Merrow is the harbour master."}}


@pytest.fixture
def shelf():
    return story.Library(**{"Who was it?": [story.QUILLON]}, Ansa_Merrow=[story.MERROW])


@pytest.mark.parametrize("cls", AGENTS)
def test_the_question_is_searched_for_first_and_the_reader_answers(cls, replies, shelf):
    replies(do("search", "Ansa Merrow"), do("finish", answer="Fog"), other=others())
    result = small(cls, shelf)("Who was it?")
    assert shelf.queries == ["Who was it?", "Ansa Merrow"]
    assert (result.answer, result.stop_reason) == ("Tren", "finished")
    assert [hop.question for hop in result.hops] == ["Who was it?", "Ansa Merrow"]
    assert [passage.id for passage in result.passages] == ["q", "m"]


@pytest.mark.parametrize("form", [ChatForm, JsonForm])
@pytest.mark.parametrize("cls", AGENTS)
def test_actions_in_the_plain_text_of_papers_are_done(cls, form, replies, shelf):
    said = "Thought 1: Who?\nAction 1: Search[Ansa Merrow]", "Final answer: Fog"
    replies(*said, other=others(), adapter=form())
    result, trace = traced(small(cls, shelf, reader="own"), "Who was it?")
    assert (shelf.queries, result.answer) == (["Who was it?", "Ansa Merrow"], "Fog")
    assert [output["action"] for _, _, output in trace if "action" in output] == ["search", "finish"]


@pytest.mark.parametrize("cls", AGENTS)
def test_its_own_answer_counts_with_its_own_reader(cls, replies, shelf):
    replies(do("finish", answer="Fog"), other=others())
    assert small(cls, shelf, reader="own")("Who was it?").answer == "Fog"


@pytest.mark.parametrize("cls", AGENTS)
@pytest.mark.parametrize(
    "invalid",
    [
        do("search", "who was it"),
        do("search"),
        do("search", "Search"),
        do("search", "a name, date, number or short phrase, yes or no; empty until the end"),
        do("finish"),
        "??",
    ],
)
def test_a_repeat_an_echo_and_an_empty_action_end_the_loop_with_the_reader(cls, invalid, replies, shelf):
    engine = replies(invalid, other=others())
    result, trace = traced(small(cls, shelf), "Who was it?")
    assert (result.answer, result.stop_reason) == ("Tren", "unparseable" if invalid == "??" else "repeated")
    assert (shelf.queries, 1) == (["Who was it?"], result.details.get("invalid", result.details.get("notices")))
    assert len(engine.requests) <= small(cls, shelf).max_calls()
    assert all("action" not in output for _, _, output in trace)  # it must not become a demonstration


@pytest.mark.parametrize("cls", AGENTS)
def test_it_cannot_finish_before_anything_was_found(cls, replies):
    engine = replies(do("search", "Ansa Merrow"), do("finish", answer="Tren"), other=others())
    small(cls, story.Library(Ansa_Merrow=[story.MERROW]))("Who was it?")
    offers = [offered(system) for system in map(system_of, engine.requests) if "one of" in system]
    assert "finish" not in offers[0]
    assert "finish" in offers[1]


def system_of(request):
    return str(request.system)


@pytest.mark.parametrize("cls", AGENTS)
def test_the_last_turn_is_the_readers(cls, replies, shelf):
    numbers = iter(range(100))
    shelf.find = lambda query, k: [story.page(f"p{next(numbers)}", "Quillon", f"It is {query}.")]
    program = small(cls, shelf)
    engine = replies(*[do("search", f"island {number}") for number in range(8)], other=others())
    result = program("Who was it?")
    assert (result.answer, result.stop_reason) == ("Tren", "cap")
    assert len(engine.requests) == program.max_calls()


def test_words_can_be_looked_up_while_sentences_are_hidden(replies):
    engine = replies(do("lookup", "Ansa"), do("finish", answer="Fog"), other=others())
    result = small(ReAct, story.Library(**{"Who was it?": [LONG]}))("Who was it?")
    assert "lookup" in offered(system_of(engine.requests[0]))
    assert "Ansa rules Tren." not in engine.prompts[0]
    assert "Ansa rules Tren." in block(engine.prompts[1], "passages")
    assert [hop.verdict for hop in result.hops] == ["searched", "looked up"]


def test_lookup_is_not_offered_where_all_is_shown(replies, shelf):
    engine = replies(do("finish", answer="Fog"), other=others())
    small(ReAct, shelf)("Who was it?")
    assert offered(system_of(engine.requests[0])) == ["search", "finish"]


def test_passages_that_were_read_are_shown_whole_and_read_alone(replies):
    library = story.Library(**{"Who was it?": [LONG, story.MERROW]})
    engine = replies(do("read", "[1]"), do("finish", answer="Fog"), other=others())
    result = small(ARAG, library)("Who was it?")
    assert "read" in offered(system_of(engine.requests[0]))
    assert "read" not in offered(system_of(engine.requests[1]))
    assert ("Sentence 8" in engine.prompts[0], "Sentence 8" in engine.prompts[1]) == (False, True)
    assert [hop.passage_ids for hop in result.hops] == [["q", "m"], ["q"]]


def test_search_o1_shows_what_was_extracted(replies, shelf):
    engine = replies(do("finish", answer="Fog"), other=others())
    result = small(SearchO1, shelf)("Who was it?")
    (shown,) = [prompt for prompt in engine.prompts if "searched ##" in prompt]
    assert block(shown, "passages") == "[1] Who was it?: Ansa Merrow is the harbour master."
    assert result.hops[0].answer == "Ansa Merrow is the harbour master."


@pytest.mark.parametrize("cls", AGENTS)
def test_the_question_is_searched_for_whatever_it_looks_like(cls, replies):
    replies(do("finish", answer="Fog"), other=others())
    library = story.Library(**{"The mayor was born in:": [story.QUILLON]})
    assert small(cls, library)("The mayor was born in:").answer == "Tren"


def test_several_passages_are_opened_by_one_action(replies):
    other = LONG.model_copy(update={"id": "o", "title": "Other"})
    library = story.Library(**{"Who was it?": [LONG, other]})
    engine = replies(do("read", "1, 2"), do("finish", answer="Fog"), other=others())
    result = small(ARAG, library)("Who was it?")
    assert block(engine.prompts[1], "passages").count("Sentence 8") == 2
    assert result.details["read"] == ["q", "o"]


def test_a_search_shows_further_sentences_of_a_passage_found_before(replies):
    library = story.Library(**{"Who was it?": [LONG], "Ansa": [LONG]})
    engine = replies(do("keywords", "Ansa"), do("finish", answer="Fog"), other=others())
    small(ARAG, library)("Who was it?")
    assert ["Ansa rules" in prompt for prompt in engine.prompts[:2]] == [False, True]


def test_the_same_lookup_again_shows_the_next_hidden_sentence(replies):
    page = story.page("q", "Quillon", "Fog one. Fog two. Fog three. Fog four. Fog five. Fog six. Fog seven.")
    lookup = do("lookup", "fog")
    engine = replies(lookup, lookup, lookup, other=others())
    result = small(ReAct, story.Library(**{"Who was it?": [page]}))("Who was it?")
    assert [hop.evidence for hop in result.hops[1:]] == ["Fog six.", "Fog seven."]
    assert (result.stop_reason, block(engine.prompts[1], "searched")) == ("repeated", "- Who was it?")


def test_the_next_extraction_sees_what_was_extracted_before(replies, shelf):
    engine = replies(do("search", "Ansa Merrow"), do("finish", answer="Fog"), other=others())
    small(SearchO1, shelf)("Who was it?")
    second = [prompt for prompt in engine.prompts if "## transcript ##" in prompt][1]
    assert "Result 1: Ansa Merrow is the harbour master." in second


@pytest.mark.parametrize("cls", AGENTS)
def test_a_reader_that_declines_is_no_demonstration(cls, replies, shelf):
    replies(do("finish", answer="Fog"), other=others("unknown"))
    result, trace = traced(small(cls, shelf), "Who was it?")
    assert result.answer == "Fog"
    assert all(output.get("answer") != "unknown" for _, _, output in trace)


@pytest.mark.parametrize("cls", AGENTS)
@pytest.mark.parametrize("reader", ["own", "passages"])
def test_an_answer_that_echoes_the_prompt_is_none(cls, reader, replies, shelf):
    echo = "a name, date, number or short phrase, yes or no; empty until the end"
    replies(do("finish", answer=echo), other=others("Tren" if reader == "own" else "unknown"))
    result, trace = traced(small(cls, shelf, reader=reader), "Who was it?")
    assert (result.answer, result.stop_reason) == ("Tren" if reader == "own" else "", "repeated")
    assert all("action" not in output for _, _, output in trace)


def test_a_sentence_that_two_searches_find_is_shown_once(replies):
    page = story.page("q", "Quillon", "Quillon is an island. Ansa rules Tren. Tren was wide. It is far.")
    finds = {"Ansa rules Tren?": [page], "Was it wide and far?": [page]}
    library = story.Library()
    library.find = lambda query, k: finds.get(query, [])
    engine = replies(do("search", "Was it wide and far?"), do("finish", answer="Fog"), other=others())
    small(ARAG, library)("Ansa rules Tren?")
    shown = block(engine.prompts[1], "passages")
    assert shown.count("Ansa rules Tren.") == shown.count("Tren was wide.") == 1
