import pytest

from programs.agents.react import ReAct
from programs.catalog import build
from signatures.types import Passage
from tests.programs.agents import library as story
from tests.programs.fakes import traced

act, field = story.act, story.field
INVALID = "This was no valid action: search, lookup or finish, each with its argument."


def test_a_question_is_searched_looked_up_and_finished(replies, library):
    engine = replies(
        act("search", "Quillon", "Who runs it?"), act("lookup", "harbour"), act("lookup", "Harbour "),
        act("finish", "Ansa Merrow", "That is it."),
    )  # fmt: skip
    result = ReAct(library, k=1, sentences=1)("Who runs the harbour?")
    assert library.asked == [("Quillon", 1)]
    assert field(engine.prompts[0], "question") == ["Who runs the harbour?"]
    assert field(engine.prompts[0], "transcript") == ["(none)"]
    assert field(engine.prompts[3], "transcript") == [
        "- Thought 1: Who runs it?",
        "- Action 1: search: Quillon",
        "- Result 1: Quillon: Quillon is an island.",
        "- Action 2: lookup: harbour",
        "- Result 2: (Result 1 / 2) It has a harbour.",
        "- Action 3: lookup: Harbour",
        "- Result 3: (Result 2 / 2) Its harbour master is Ansa Merrow.",
    ]
    assert (result.answer, result.stop_reason, result.citations) == ("Ansa Merrow", "finished", ["q"])
    assert [(hop.question, hop.verdict, hop.evidence, hop.passage_ids) for hop in result.hops] == [
        ("Quillon", "searched", None, ["q"]),
        ("harbour", "looked up", "It has a harbour.", ["q"]),
        ("Harbour", "looked up", "Its harbour master is Ansa Merrow.", ["q"]),
    ]
    assert [passage.id for passage in result.passages] == ["q"]
    assert result.details == {"steps": 4, "invalid": 0}


@pytest.mark.parametrize(
    ("looked_up", "results"),
    [
        (["harbour", "harbour", "harbour"], ["(Result 1 / 2)", "(Result 2 / 2)", "No more results."]),
        (["harbour", "island", "harbour"], ["(Result 1 / 2)", "(Result 1 / 1)", "(Result 1 / 2)"]),
        (["fog"], ["No more results."]),
    ],
)
def test_a_lookup_goes_on_from_the_last_of_the_same_words(replies, library, looked_up, results):
    engine = replies(act("search", "Quillon"), *(act("lookup", words) for words in looked_up), act("finish", "x"))
    ReAct(library)("Question?")
    lines = [line for line in field(engine.prompts[-1], "transcript") if line.startswith("- Result")][2:]
    for line, result in zip(lines, results, strict=True):
        assert result in line


def test_a_new_search_starts_lookups_anew_and_one_that_finds_nothing_leaves_them(replies, library):
    said = [act("search", "Quillon"), act("search", "Fog"), act("lookup", "harbour"), act("search", "Ansa Merrow"),
            act("lookup", "harbour"), act("finish", "Tren")]  # fmt: skip
    engine = replies(*said)
    result = ReAct(library)("Question?")
    lines = field(engine.prompts[-1], "transcript")
    assert "- Result 2: Nothing was found. Search for something else." in lines
    assert "- Result 3: (Result 1 / 2) It has a harbour." in lines
    assert "- Result 5: No more results." in lines
    assert [hop.passage_ids for hop in result.hops] == [["q", "m"], [], ["q"], ["m"], []]
    assert [passage.id for passage in result.passages] == ["q", "m"]


def test_a_lookup_before_any_search_finds_nothing(replies, library):
    engine = replies(act("lookup", "harbour"), act("finish", "x"))
    ReAct(library)("Question?")
    assert "- Result 1: No more results." in field(engine.prompts[-1], "transcript")


@pytest.mark.parametrize(
    "malformed", ["??", act("search", ""), act("search", "None"), act("lookup", " "), act("fly", "x")]
)
def test_a_malformed_action_uses_a_step_and_is_told_so(replies, library, malformed):
    engine = replies(malformed, act("finish", "x"))
    program = ReAct(library)
    result, trace = traced(program, "Question?")
    assert [output.action for _, _, output in trace] == ["finish"]
    assert field(engine.prompts[1], "transcript")[-1] == f"- Result 1: {INVALID}"
    assert (result.details, result.hops, library.asked) == ({"steps": 2, "invalid": 1}, [], [])


def test_the_thought_of_a_malformed_action_is_kept(replies, library):
    engine = replies(act("search", "", "Where is it?"), act("finish", "x"))
    ReAct(library)("Question?")
    assert field(engine.prompts[1], "transcript")[0] == "- Thought 1: Where is it?"


def test_steps_that_run_out_leave_no_answer(replies, library):
    engine = replies(act("search", "Quillon"))
    program = ReAct(library, max_steps=3)
    result = program("Question?")
    assert (result.answer, result.abstained, result.stop_reason) == ("", True, "cap")
    assert len(engine.requests) == program.max_calls() == 3
    assert library.asked == [("Quillon", 3)] * 3  # repeats are not checked
    assert ReAct(library).max_calls() == 7


def test_to_finish_with_nothing_is_no_answer(replies, library):
    replies(act("finish", ""))
    result = ReAct(library)("Question?")
    assert (result.answer, result.abstained, result.stop_reason) == ("", True, "finished")


@pytest.mark.parametrize("last", [act("search", "Quillon"), act("finish", "on Tren")])
def test_dspys_extracting_call_always_answers(replies, library, last):
    engine = replies(last, other={"The search has ended": {"reasoning": "r", "answer": "Tren"}})
    program = build("react", library, preset="dspy", max_steps=2)
    result = program("Question?")
    assert result.answer == "Tren"
    assert field(engine.prompts[-1], "transcript")[-1].startswith(("- Result 2", "- Action 1: finish: on Tren"))
    assert len(engine.requests) <= program.max_calls() == 3
    assert build("react", library, preset="dspy").max_calls() == 21


@pytest.mark.parametrize("extracted", ["??", {"reasoning": "", "answer": ""}, {"reasoning": "", "answer": "unknown"}])
def test_an_extracting_call_without_an_answer_leaves_the_agents_own(replies, library, extracted):
    replies(act("finish", "Tren"), other={"The search has ended": extracted})
    assert ReAct(library, reader="extract")("Question?").answer == "Tren"


def test_the_shared_reader_reads_what_was_found(replies, library):
    engine = replies(
        act("search", "Quillon"), act("finish", "x"), other={"with what the passages say": {"answer": "Ansa Merrow"}}
    )
    program = ReAct(library, reader="passages")
    result = program("Question?")
    assert (result.answer, len(engine.requests)) == ("Ansa Merrow", 3)
    assert [line[:3] for line in field(engine.prompts[-1], "passages")] == ["[1]", "[2]"]


def test_the_shared_reader_is_not_asked_over_nothing(replies, library):
    engine = replies(act("finish", "Tren"))
    assert ReAct(library, reader="passages")("Question?").answer == "Tren"
    assert len(engine.requests) == 1


def test_given_passages_are_what_the_first_search_finds(replies, library):
    given = [story.page("g", "Given", "Fog.")]
    replies(act("search", "Ansa Merrow"), act("search", "Quillon"), act("finish", "x"))
    result = ReAct(library)("Question?", passages=given)
    assert library.asked == [("Quillon", 3)]
    assert [hop.passage_ids for hop in result.hops] == [["g"], ["q", "m"]]


@pytest.mark.parametrize("passages", [[], None])
def test_nothing_to_find_is_no_error(replies, passages):
    replies(act("search", "Fog"), act("lookup", "fog"), act("finish", "x"))
    result = ReAct(story.Library())("Question?", passages=passages)
    assert (result.answer, result.passages, result.citations) == ("x", [], [])


def test_chinese_sentences_are_shown_and_looked_up(replies):
    text = "奎隆港建于十七世纪。奎隆港的港务长是安莎·梅罗。她出生在特伦岛。"
    library = story.Library(奎隆港=[Passage(id="p", title="奎隆港", text=text)])
    engine = replies(act("search", "奎隆港"), act("lookup", "港务长"), act("finish", "安莎·梅罗"))
    result = ReAct(library, sentences=1)("奎隆港的港务长是谁？")
    lines = field(engine.prompts[-1], "transcript")
    assert "- Result 1: 奎隆港: 奎隆港建于十七世纪。" in lines
    assert lines[-1] == "- Result 2: (Result 1 / 1) 奎隆港的港务长是安莎·梅罗。"
    assert (result.answer, result.citations) == ("安莎·梅罗", ["p"])
