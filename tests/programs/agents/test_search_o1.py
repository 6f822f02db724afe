import pytest

from programs.agents.search_o1 import SearchO1
from signatures.types import Passage
from tests.programs.agents import library as story
from tests.programs.fakes import traced

act, field = story.act, story.field
READS = "extract what helps"
BORN = {"information": "She was born on Tren."}


def test_a_separate_call_reads_the_passages_and_its_words_alone_join_the_reasoning(replies, library):
    engine = replies(act("search", "Ansa Merrow", "Where was she born?"), act("finish", "Tren"), other={READS: BORN})
    result = SearchO1(library)("Question?")
    assert library.asked == [("Ansa Merrow", 10)]
    reasoning, reading, last = engine.prompts
    assert (field(reasoning, "limit"), field(reasoning, "transcript")) == (["10"], ["(none)"])
    assert "Question?" not in reading
    assert field(reading, "transcript") == ["- Thought 1: Where was she born?", "- Action 1: search: Ansa Merrow"]
    assert field(reading, "query") == ["Ansa Merrow"]
    assert field(reading, "passages") == ["[1] Ansa Merrow: Ansa Merrow was born on Tren."]
    assert field(last, "transcript") == [
        "- Thought 1: Where was she born?",
        "- Action 1: search: Ansa Merrow",
        "- Result 1: She was born on Tren.",
    ]
    (hop,) = result.hops
    assert (hop.question, hop.answer, hop.passage_ids) == ("Ansa Merrow", "She was born on Tren.", ["m"])
    assert (result.answer, result.stop_reason, result.citations) == ("Tren", "finished", ["m"])
    assert result.details == {"turns": 2, "notices": 0}


@pytest.mark.parametrize("nothing", ["??", {"information": ""}, {"information": "None"}, {"information": "None."}])
def test_passages_that_do_not_help_are_said_not_to(replies, library, nothing):
    engine = replies(act("search", "Quillon"), act("finish", "x"), other={READS: nothing})
    result = SearchO1(library)("Question?")
    assert field(engine.prompts[-1], "transcript")[-1] == "- Result 1: Nothing helpful was found."
    assert result.hops[0].answer == ""


def test_a_repeated_query_gets_a_notice_and_the_reasoning_goes_on(replies, library):
    engine = replies(
        act("search", "Ansa Merrow"), act("search", "ANSA, Merrow!"), act("finish", "Tren"), other={READS: BORN}
    )
    program = SearchO1(library)
    result, trace = traced(program, "Question?")
    kept = [output.argument for _, _, output in trace if "argument" in output]
    assert kept == ["Ansa Merrow", "Tren"]
    assert field(engine.prompts[-1], "transcript")[-1] == (
        "- Result 2: This was searched for before: go by the earlier result."
    )
    assert (len(library.asked), len(result.hops), result.answer) == (1, 1, "Tren")
    assert result.details == {"turns": 3, "notices": 1}


def test_a_search_beyond_the_limit_gets_a_notice(replies, library):
    said = [act("search", "Quillon"), act("search", "Ansa Merrow"), act("search", "Quillon"), act("finish", "x")]
    engine = replies(*said, other={READS: BORN})
    result = SearchO1(library, max_searches=1)("Question?")
    lines = field(engine.prompts[-1], "transcript")
    assert lines[3] == lines[5].replace("3", "2") == "- Result 2: All searches are used up: reason on without."
    assert (len(library.asked), result.details["notices"]) == (1, 2)


@pytest.mark.parametrize("invalid", ["??", act("search", ""), act("finish", ""), act("finish", "unknown")])
def test_an_invalid_reply_gets_a_notice(replies, library, invalid):
    engine = replies(invalid, act("finish", "Tren"))
    result = SearchO1(library)("Question?")
    assert field(engine.prompts[1], "transcript")[-1] == (
        "- Result 1: This was no valid action: search with a query, or finish with the answer."
    )
    assert (result.answer, result.details) == ("Tren", {"turns": 2, "notices": 1})


class Endless(story.Library):
    def find(self, query, k):
        return [Passage(id=query, text=query)]


@pytest.mark.parametrize(
    ("knobs", "calls", "searches"),
    [({}, 25, 10), ({"max_turns": 3}, 5, 2), ({"max_turns": 3, "documents": False}, 3, 2), ({"max_searches": 2}, 17, 2),
     ({"max_turns": 3, "reader": "extract"}, 6, 2)],
)  # fmt: skip
def test_the_turns_that_run_out_take_the_most_calls(scripted, knobs, calls, searches):
    said = iter(range(99))

    def reply(system, user):
        return {**BORN, **act("search", f"number {next(said)}"), "reasoning": "r", "answer": "Tren"}

    engine = scripted(reply)
    library = Endless()
    program = SearchO1(library, **knobs)
    result = program("Question?")
    assert len(engine.requests) == program.max_calls() == calls
    assert len(library.asked) == searches
    assert (result.answer, result.stop_reason) == ("Tren" if "reader" in knobs else "", "cap")


def test_without_the_separate_call_the_passages_join_the_reasoning(replies, library):
    engine = replies(act("search", "Quillon"), act("finish", "x"))
    result = SearchO1(library, documents=False)("Question?")
    assert field(engine.prompts[-1], "transcript")[1:] == [
        "- Result 1: Quillon: Quillon is an island. It has a harbour. Its harbour master is Ansa Merrow.",
        "- Result 1: Ansa Merrow: Ansa Merrow was born on Tren.",
    ]
    assert result.hops[0].answer == ""
    assert len(engine.requests) == 2


def test_long_reasoning_is_shortened_for_the_separate_call(replies):
    said = [act("search", f"number {n}", f"Thought of turn {n}.") for n in range(1, 6)]
    engine = replies(*said, act("finish", "x"), other={READS: BORN})
    SearchO1(Endless())("Question?")
    readings = [prompt for prompt in engine.prompts if "[[ ## query ## ]]" in prompt]
    lines = field(readings[3], "transcript")
    assert lines == [
        "- Thought 1: Thought of turn 1.",
        "- Action 1: search: number 1",
        "- Result 1: She was born on Tren.",
        "- ...",
        "- Action 2: search: number 2",
        "- Result 2: She was born on Tren.",
        "- ...",
        "- Action 3: search: number 3",
        "- Result 3: She was born on Tren.",
        "- Thought 4: Thought of turn 4.",
        "- Action 4: search: number 4",
    ]


def test_given_passages_are_what_the_first_search_finds(replies, library):
    replies(act("search", "x"), act("search", "Ansa Merrow"), act("finish", "y"), other={READS: BORN})
    result = SearchO1(library)("Question?", passages=[story.QUILLON])
    assert [hop.passage_ids for hop in result.hops] == [["q"], ["m"]]


@pytest.mark.parametrize("passages", [[], None])
def test_nothing_found_takes_no_call_to_read(replies, passages):
    engine = replies(act("search", "fog"), act("finish", "x"))
    result = SearchO1(story.Library())("Question?", passages=passages)
    assert (len(engine.requests), result.answer, result.passages) == (2, "x", [])
    assert field(engine.prompts[1], "transcript")[-1] == "- Result 1: Nothing helpful was found."


def test_a_chinese_question_repeats_no_query(replies):
    library = story.Library(奎隆港的港务长=[Passage(id="p", title="奎隆港", text="港务长是安莎·梅罗。")])
    replies(
        act("search", "奎隆港的港务长"), act("search", "奎隆港的港务长？"), act("finish", "安莎·梅罗"),
        other={READS: {"information": "港务长是安莎·梅罗。"}},
    )  # fmt: skip
    result = SearchO1(library)("奎隆港的港务长是谁？")
    assert (len(library.asked), result.answer, result.citations) == (1, "安莎·梅罗", ["p"])
    assert result.hops[0].answer == "港务长是安莎·梅罗。"
