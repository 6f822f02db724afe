import pytest

from programs.agents.a_rag import ARAG
from signatures.types import Passage
from tests.programs.agents import library as story
from tests.programs.fakes import Fake, traced

act, field = story.act, story.field
INVALID = "This was no valid action: keywords, search, read with numbers of passages, or finish with the answer."
FORCED = {"The search has ended": {"reasoning": "r", "answer": "Tren"}}
PAGES = [
    story.page("fog", "Fog", "Fog is wet."),
    story.page(
        "q", "Quillon", "Quillon is an island. It has a harbour. Its harbour master is Ansa Merrow. Fog is rare."
    ),
    story.page("m", "Ansa Merrow", "Ansa Merrow was born on Tren. She sails."),
]


class Pages(Fake):
    def find(self, query, k):
        return PAGES


def test_snippets_are_found_and_passages_read_whole(replies):
    pages = Pages()
    engine = replies(
        act("keywords", "Harbour, master", "Who?"), act("search", "birth of Ansa Merrow"), act("read", "1, 3"),
        act("finish", "Tren"),
    )  # fmt: skip
    result = ARAG(pages, k=2)("Question?")
    assert pages.asked == [("Harbour master", 50), ("birth of Ansa Merrow", 2)]
    assert field(engine.prompts[3], "transcript") == [
        "- Thought 1: Who?",
        "- Action 1: keywords: Harbour, master",
        "- Result 1: [1] Quillon: It has a harbour. ... Its harbour master is Ansa Merrow.",
        "- Action 2: search: birth of Ansa Merrow",
        "- Result 2: [2] Fog: Fog is wet.",
        "- Result 2: [1] Quillon: Quillon is an island. ... Its harbour master is Ansa Merrow.",
        "- Action 3: read: 1, 3",
        f"- Result 3: [1] Quillon: {PAGES[1].text}",
        "- Result 3: There is no passage 3.",
    ]
    assert [(hop.question, hop.verdict, hop.passage_ids) for hop in result.hops] == [
        ("Harbour, master", "keywords", ["q"]),
        ("birth of Ansa Merrow", "search", ["fog", "q"]),
        ("1, 3", "read", ["q"]),
    ]
    assert [passage.id for passage in result.passages] == ["q", "fog"]
    assert (result.answer, result.stop_reason) == ("Tren", "finished")
    assert result.details == {"turns": 4, "read": ["q"], "invalid": 0, "forced": False}


def test_keywords_rank_by_count_and_length_and_the_retriever_breaks_ties(replies):
    replies(act("keywords", "fog, ANSA Merrow"), act("keywords", "is"), act("finish", "x"))
    result = ARAG(Pages())("Question?")
    assert result.hops[0].passage_ids == ["m", "q", "fog"]  # 2 x 11, 11 + 3, 2 x 3
    assert result.hops[1].passage_ids == ["q", "fog"]  # 4 times; "m" has none


def test_keywords_that_no_passage_has_find_nothing(replies):
    engine = replies(act("keywords", "rain"), act("finish", "x"))
    result = ARAG(Pages())("Question?")
    assert field(engine.prompts[1], "transcript")[-1] == "- Result 1: Nothing was found. Try other words."
    assert result.hops[0].passage_ids == []


def test_a_title_alone_shows_the_first_sentence(replies):
    library = story.Library(Tren=[Passage(id="t", title="Tren", text="An island it is. Nobody lives there.")])
    engine = replies(act("keywords", "Tren"), act("finish", "x"))
    ARAG(library)("Question?")
    assert field(engine.prompts[1], "transcript")[-1] == "- Result 1: [1] Tren: An island it is."


def test_a_passage_in_view_is_not_shown_again(replies):
    engine = replies(act("search", "fog"), act("read", "[2]"), act("read", "Passage 2"), act("finish", "x"))
    result = ARAG(Pages())("Question?")
    assert field(engine.prompts[3], "transcript")[-1] == "- Result 3: Passage 2 is above already."
    assert result.details["read"] == ["q"]


def test_a_passage_that_was_left_out_can_be_read_again(replies):
    fog, rain = (Passage(id=word, text=" ".join([word] * 80)) for word in ("fog", "rain"))
    engine = replies(act("search", "fog"), act("search", "rain"), act("read", "1, 2"), act("finish", "x"))
    ARAG(story.Library(fog=[fog], rain=[rain]), transcript_words=120)("Question?")
    lines = field(engine.prompts[3], "transcript")
    assert lines[-2:] == [f"- Result 3: [1] {fog.text}", "- Result 3: Passage 2 is above already."]


@pytest.mark.parametrize(
    "invalid", ["??", act("read", "the first"), act("search", "None"), act("keywords", ""), act("finish", "unknown")]
)
def test_what_cannot_be_done_gets_a_notice(replies, invalid):
    engine = replies(invalid, act("finish", "x"))
    program = ARAG(Pages())
    result, trace = traced(program, "Question?")
    assert [output.argument for _, _, output in trace] == ["x"]
    assert field(engine.prompts[1], "transcript")[-1] == f"- Result 1: {INVALID}"
    assert (result.answer, result.details["invalid"], result.hops) == ("x", 1, [])


@pytest.mark.parametrize(("knobs", "calls"), [({}, 11), ({"max_turns": 2}, 3), ({"reader": "passages"}, 12)])
def test_after_the_last_turn_the_answer_is_demanded(replies, knobs, calls):
    engine = replies(act("search", "fog"), other={**FORCED, "passages say. Give": {"answer": "Tren"}})
    program = ARAG(Pages(), **knobs)
    result = program("Question?")
    assert len(engine.requests) == program.max_calls() == calls
    assert (result.answer, result.stop_reason, result.details["forced"]) == ("Tren", "cap", True)
    assert result.citations == ["m", "q"]


def test_what_states_the_answer_is_cited_before_a_passage_read_that_the_question_names(replies):
    replies(act("search", "fog"), act("read", "2"), act("finish", "Tren"))
    result = ARAG(Pages())("Where was the harbour master of Quillon born?")
    assert result.details["read"] == ["q"]
    assert result.citations == ["m", "q"]


def test_an_unparseable_demanded_answer_is_none(replies):
    replies(act("search", "fog"), other={"The search has ended": "??"})
    result = ARAG(Pages(), max_turns=1)("Question?")
    assert (result.answer, result.abstained) == ("", True)


def test_the_shared_reader_reads_what_was_read_whole(replies):
    engine = replies(
        act("search", "fog"), act("read", "3"), act("finish", "x"), other={"passages say. Give": {"answer": "Tren"}}
    )
    result = ARAG(Pages(), reader="passages")("Question?")
    assert field(engine.prompts[-1], "passages") == ["[1] Ansa Merrow: Ansa Merrow was born on Tren. She sails."]
    assert result.answer == "Tren"


def test_without_keyword_search_keywords_are_searched_for_by_meaning(replies):
    pages = Pages()
    replies(act("keywords", "rain, fog"), act("finish", "x"))
    result = ARAG(pages, k=2, keyword_search=False)("Question?")
    assert pages.asked == [("rain, fog", 2)]
    assert result.hops[0].passage_ids == ["fog", "q"]


def test_given_passages_are_the_corpus_of_the_first_search(replies):
    pages = Pages()
    replies(act("keywords", "tren"), act("read", "1"), act("keywords", "harbour"), act("finish", "x"))
    result = ARAG(pages)("Question?", passages=PAGES[2:])
    assert [hop.passage_ids for hop in result.hops] == [["m"], ["m"], ["q"]]
    assert len(pages.asked) == 1


@pytest.mark.parametrize("passages", [[], None])
def test_nothing_to_find_is_no_error(replies, passages):
    replies(act("keywords", "fog"), act("search", "fog"), act("read", "1"), act("finish", "x"))
    result = ARAG(story.Library())("Question?", passages=passages)
    assert (result.answer, result.passages, result.details["read"]) == ("x", [], [])


def test_chinese_keywords_and_sentences(replies):
    text = "奎隆港建于十七世纪。奎隆港的港务长是安莎·梅罗。她出生在特伦岛。"
    library = story.Library(**{"港务长 特伦": [Passage(id="p", title="奎隆港", text=text)]})
    engine = replies(act("keywords", "港务长、特伦"), act("finish", "特伦岛"))
    result = ARAG(library)("港务长出生在哪个岛上？")
    assert field(engine.prompts[1], "transcript")[-1] == (
        "- Result 1: [1] 奎隆港: 奎隆港的港务长是安莎·梅罗。 ... 她出生在特伦岛。"
    )
    assert (result.answer, result.citations) == ("特伦岛", ["p"])


def test_quoted_keywords_are_found(replies):
    engine = replies(act("keywords", '"harbour", [“master”]'), act("finish", "x"))
    pages = Pages()
    ARAG(pages)("Question?")
    assert pages.asked == [("harbour master", 50)]
    assert field(engine.prompts[1], "transcript")[-1].startswith("- Result 1: [1] Quillon: It has a harbour.")


def test_fixed_contexts_are_ranked_by_the_query(replies):
    contexts = [Passage(id=f"c{n}", title="", text=f"The lamp of thing{n} is lit.") for n in range(10)]
    engine = replies(act("search", "lamp of thing9"), act("finish", "x"))
    ARAG(k=2)("Question?", passages=contexts)
    assert "thing9" in field(engine.prompts[1], "transcript")[1]
