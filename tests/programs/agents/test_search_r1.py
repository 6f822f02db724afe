import pytest

from programs.agents.search_r1 import SearchR1
from signatures.types import Passage
from tests.programs.agents import library as story
from tests.programs.fakes import traced

act, field = story.act, story.field
INVALID = "This was no valid action. Search with a query if something is missing, or finish with the answer."


def test_passages_join_the_transcript_until_the_answer(replies, library):
    engine = replies(act("search", "Quillon", "Who?"), act("search", "Ansa Merrow", "Where?"), act("finish", "Tren"))
    result = SearchR1(library)("Question?")
    assert library.asked == [("Quillon", 3), ("Ansa Merrow", 3)]
    assert field(engine.prompts[2], "transcript") == [
        "- Thought 1: Who?",
        "- Action 1: search: Quillon",
        "- Result 1: Quillon: Quillon is an island. It has a harbour. Its harbour master is Ansa Merrow.",
        "- Result 1: Ansa Merrow: Ansa Merrow was born on Tren.",
        "- Thought 2: Where?",
        "- Action 2: search: Ansa Merrow",
        "- Result 2: Ansa Merrow: Ansa Merrow was born on Tren.",
    ]
    assert (result.answer, result.stop_reason, result.citations) == ("Tren", "finished", ["m", "q"])
    assert [(hop.question, hop.answer, hop.passage_ids) for hop in result.hops] == [
        ("Quillon", "", ["q", "m"]),
        ("Ansa Merrow", "", ["m"]),
    ]
    assert [passage.id for passage in result.passages] == ["q", "m"]
    assert result.details == {"turns": 3, "invalid": 0}


def test_the_search_of_the_last_generation_is_not_run(replies, library):
    engine = replies(act("search", "Quillon"))
    program = SearchR1(library)
    result = program("Question?")
    assert len(engine.requests) == program.max_calls() == 5
    assert len(library.asked) == 4
    assert (result.answer, result.abstained, result.stop_reason) == ("", True, "cap")
    assert result.details == {"turns": 5, "invalid": 0}


def test_the_last_generation_may_answer(replies, library):
    replies(*[act("search", "Quillon")] * 2, act("finish", "Tren"))
    result = SearchR1(library, max_turns=2)("Question?")
    assert (result.answer, result.stop_reason, len(library.asked)) == ("Tren", "finished", 2)


@pytest.mark.parametrize(
    "invalid", ["??", act("search", ""), act("search", "None"), act("finish", ""), act("finish", "unknown")]
)
def test_an_invalid_reply_gets_a_notice_and_uses_a_turn(replies, library, invalid):
    engine = replies(invalid, act("search", "Quillon"))
    program = SearchR1(library)
    result, trace = traced(program, "Question?")
    # The search that was not run leaves the trace, too.
    assert [output.argument for _, _, output in trace] == ["Quillon"] * 3
    assert field(engine.prompts[1], "transcript")[-1] == f"- Result 1: {INVALID}"
    assert (len(engine.requests), len(library.asked)) == (5, 3)
    assert result.details == {"turns": 5, "invalid": 1}


def test_a_result_is_cut_to_its_limit(replies):
    library = story.Library(fog=[Passage(id=str(n), text=" ".join(["fog"] * 40)) for n in range(3)])
    engine = replies(act("search", "fog"), act("finish", "x"))
    SearchR1(library, result_words=50)("Question?")
    lines = field(engine.prompts[1], "transcript")[1:]
    assert lines == [f"- Result 1: {' '.join(['fog'] * 40)}", f"- Result 1: {' '.join(['fog'] * 10)}..."]


def test_old_results_are_left_out_of_a_long_transcript(replies):
    library = story.Library(fog=[Passage(id="f", text=" ".join(["fog"] * 60))])
    engine = replies(act("search", "fog"), act("search", "fog"), act("finish", "x"))
    SearchR1(library, transcript_words=100)("Question?")
    assert field(engine.prompts[2], "transcript") == [
        "- Action 1: search: fog",
        "- Result 1: (left out)",
        "- Action 2: search: fog",
        f"- Result 2: {' '.join(['fog'] * 60)}",
    ]


@pytest.mark.parametrize(("reader", "words"), [("extract", "The search has ended"), ("passages", "passages say")])
def test_a_reader_answers_where_the_turns_run_out(replies, library, reader, words):
    engine = replies(act("search", "Quillon"), other={words: {"reasoning": "r", "answer": "Tren"}})
    program = SearchR1(library, max_turns=1, reader=reader)
    result = program("Question?")
    assert (result.answer, result.stop_reason) == ("Tren", "cap")
    assert len(engine.requests) == program.max_calls() == 3


def test_given_passages_are_what_the_first_search_finds(replies, library):
    replies(act("search", "x"), act("search", "Ansa Merrow"), act("finish", "y"))
    result = SearchR1(library)("Question?", passages=[story.QUILLON])
    assert [hop.passage_ids for hop in result.hops] == [["q"], ["m"]]
    alone = SearchR1()("Question?", passages=[story.QUILLON])
    assert alone.answer == "y"


@pytest.mark.parametrize("passages", [[], None])
def test_nothing_found_is_said(replies, passages):
    engine = replies(act("search", "fog"), act("finish", "x"))
    result = SearchR1(story.Library())("Question?", passages=passages)
    assert field(engine.prompts[1], "transcript")[-1] == "- Result 1: Nothing was found."
    assert (result.answer, result.passages, result.citations) == ("x", [], [])


def test_a_chinese_question(replies):
    library = story.Library(奎隆港=[Passage(id="p", title="奎隆港", text="奎隆港的港务长是安莎·梅罗。")])
    engine = replies(act("search", "奎隆港", "先找港务长。"), act("finish", "安莎·梅罗"))
    result = SearchR1(library)("奎隆港的港务长是谁？")
    assert field(engine.prompts[1], "transcript")[-1] == "- Result 1: 奎隆港: 奎隆港的港务长是安莎·梅罗。"
    assert (result.answer, result.citations) == ("安莎·梅罗", ["p"])
