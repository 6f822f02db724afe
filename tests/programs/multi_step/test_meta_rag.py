"""MetaRAG: when it stops, what it asks about an answer, what it searches for, and the advice it gives."""

import re

import pytest

from programs.lms.adapter import JsonForm
from programs.multi_step.meta_rag import MetaRAG
from signatures.types import Passage
from tests.programs.fakes import Fake, Similar, traced

KINDS = {
    "Answer the question with the passages, in the way": "advised",
    "Answer the question with what the passages say. Give": "reading",
    "Answer the question from what you know": "recalling",
    "Examine how the question": "evaluating",
    "Decide whether you know": "knowing",
    "Decide whether the passages alone": "sufficing",
    "Decide whether the reasoning": "supporting",
    "The passages do not suffice": "searching",
}
JUDGEMENTS = {"knowing", "sufficing", "supporting"}


def kind_of(system):
    (kind,) = {kind for start, kind in KINDS.items() if system.startswith(start)}
    return kind if kind != "reading" else "answering" if "reasoning" in system else "monitoring"


def shown(user, name):
    return re.search(rf"\[\[ ## {name} ## \]\]\n(.*?)(?=\n\n\[\[ ## |\n\n[A-Z][^\n]*\Z|\Z)", user, re.DOTALL)[1].strip()


class Story:
    """Replies by kind of prompt, the last one of a list again and again; judgements are P(yes), "?" is unparseable."""

    def __init__(self, **replies):
        fine = {"feedback": "", "correct": True}
        self.replies = {"answering": "Quillon", "monitoring": "Tarn", "advised": ["Veld", "Orm", "Sund"],
                        "evaluating": fine, "knowing": 0.0, "sufficing": 0.0, "supporting": 0.0,
                        "searching": ["first query", "second query", "third query"], **replies}  # fmt: skip
        self.asked = []

    def __call__(self, system, user):
        kind = kind_of(system)
        self.asked.append((kind, user))
        said = self.replies[kind]
        said = said if isinstance(said, list) else [said]
        value = said[min(self.kinds().count(kind), len(said)) - 1]
        if value == "?" or isinstance(value, dict):
            return value
        if kind in JUDGEMENTS:
            return {"probability": value} if "probability" in system else "yes" if value > 0.5 else "no"
        return {"query": value} if kind == "searching" else {"reasoning": f"because of {value}", "answer": value}

    def kinds(self):
        return [kind for kind, _ in self.asked]

    def prompts(self, kind):
        return [user for asked, user in self.asked if asked == kind]


class Shelves(Fake):
    """Finds two passages of its own for each query, and one that it has found before."""

    def find(self, query, k):
        number = len(self.asked)
        found = [Passage(id=f"p{number}{letter}", title=query, text=f"Text {number}{letter}") for letter in "ab"]
        return [*found, Passage(id="p1a", title="", text="again")]


@pytest.fixture
def tell(scripted):
    def start(**replies):
        story = Story(**replies)
        scripted(story, JsonForm(probability_mode="verbalised"))
        return story

    return start


def test_it_stops_at_once_where_the_second_reader_agrees(tell):
    story, search = tell(monitoring="Quillon."), Shelves()
    result = MetaRAG(search)("Where?")
    assert story.kinds() == ["answering", "monitoring"]
    assert (result.answer, result.stop_reason, search.queries) == ("Quillon", "finished", ["Where?"])
    (hop,) = result.hops
    assert (hop.question, hop.answer, hop.passage_ids, hop.verdict) == ("Where?", "Quillon", ["p1a", "p1b"], "agreed")
    assert result.details == {"agreement": [1.0], "conditions": [], "feedback": []}


def test_without_any_knowledge_it_searches_and_breaks_the_question_down(tell):
    story, search = tell(monitoring=["Tarn", "Veld"]), Shelves()
    result = MetaRAG(search, k=3)("Where?")
    assert sorted(story.kinds()[2:5]) == ["evaluating", "knowing", "sufficing"]
    assert story.kinds()[5:] == ["searching", "advised", "monitoring"]
    assert search.queries == ["Where?", "first query"]
    assert [passage.id for passage in result.passages] == ["p1a", "p1b", "p2a", "p2b"]  # one was found again
    (advised,) = story.prompts("advised")
    assert shown(advised, "advice").startswith("Break the question down")
    assert shown(advised, "advice").endswith("Think step by step.")
    assert [line[:3] for line in shown(advised, "passages").splitlines()] == ["[1]", "[2]", "[3]", "[4]"]
    assert (result.answer, result.stop_reason) == ("Veld", "finished")
    assert [(hop.question, hop.verdict) for hop in result.hops] == [("Where?", "revised"), ("first query", "agreed")]
    assert result.hops[1].passage_ids == ["p2a", "p2b"]
    assert result.details["conditions"] == [[False, False]]


@pytest.mark.parametrize(
    ("known", "sufficient", "supported", "searches", "advice"),
    [
        (0.9, 0.1, 0.0, True, "Where the passages say nothing"),
        (0.1, 0.9, 0.0, False, "Rely on the passages alone"),
        (0.5, 0.5, 0.0, True, "Break the question down"),  # 0.5 is not above the bound
        (0.9, 0.9, 0.9, False, "Check the final answer"),
        (0.9, 0.9, 0.1, False, "The question needs several steps"),
    ],
)
def test_the_advice_is_for_what_is_lacking(tell, known, sufficient, supported, searches, advice):
    story, search = tell(knowing=known, sufficing=sufficient, supporting=supported), Shelves()
    MetaRAG(search, max_rounds=1)("Where?")
    assert shown(story.prompts("advised")[0], "advice").startswith(advice)
    assert len(search.queries) == 1 + searches
    assert ("supporting" in story.kinds()) == (known > 0.5 and sufficient > 0.5)


def test_feedback_replaces_the_call_to_think_step_by_step_only_where_a_fault_was_found(tell):
    story = tell(evaluating={"feedback": "The island is meant, not the port.", "correct": False})
    MetaRAG(Shelves(), max_rounds=1)("Where?")
    assert shown(story.prompts("advised")[0], "advice").endswith("The island is meant, not the port.")
    story = tell(evaluating={"feedback": "Well done.", "correct": True})
    MetaRAG(Shelves(), max_rounds=1)("Where?")
    assert shown(story.prompts("advised")[0], "advice").endswith("Think step by step.")


def test_at_the_cap_the_last_answer_is_given_and_what_is_known_is_not_asked_again(tell):
    story = tell(sufficing=0.9)
    result = MetaRAG(Shelves(), max_rounds=3)("Where?")
    assert (result.answer, result.stop_reason) == ("Sund", "cap")
    assert [hop.answer for hop in result.hops] == ["Quillon", "Veld", "Orm", "Sund"]
    assert [hop.verdict for hop in result.hops] == ["revised", "revised", "revised", "given"]
    counts = {kind: story.kinds().count(kind) for kind in ("monitoring", "knowing", "sufficing", "evaluating")}
    assert counts == {"monitoring": 1, "knowing": 1, "sufficing": 1, "evaluating": 3}


@pytest.mark.parametrize(("rounds", "mode"), [(1, "verbalised"), (3, "verbalised"), (1, "samples"), (3, "samples")])
def test_the_call_bound_is_reached(scripted, rounds, mode):
    last_suffices = [*[0.0] * (rounds - 1) * (5 if mode == "samples" else 1), 1.0]
    story = Story(knowing=1.0, sufficing=last_suffices if mode == "samples" else 0.0)
    engine = scripted(story, JsonForm(probability_mode=mode))
    program = MetaRAG(Shelves(), max_rounds=rounds)
    program("Where?")
    assert len(engine.requests) == program.max_calls()


def test_an_unparseable_answer_agrees_with_nothing_and_the_one_before_is_given(tell):
    tell(monitoring="", advised="?")
    result = MetaRAG(Shelves(), max_rounds=1)("Where?")
    assert (result.answer, result.stop_reason, result.details["agreement"]) == ("Quillon", "cap", [None, None])


@pytest.mark.parametrize("query", ["None", "?", "N/A"])
def test_without_a_query_nothing_is_added_and_the_reply_is_no_demonstration(tell, query):
    tell(searching=query)
    search = Shelves()
    program = MetaRAG(search, max_rounds=1)
    _, trace = traced(program, "Where?")
    called = [predictor for predictor, *_ in trace]
    assert search.queries == ["Where?"]
    assert program.searching not in called
    assert program.answering.predict not in called  # its answer was replaced
    assert program.advised.predict in called


def test_a_similarity_decides_instead_of_words(tell):
    alike = Similar(lambda one, other: 0.41 if (one, other) == ("Quillon", "Tarn") else 0.0)
    tell()
    assert MetaRAG(Shelves(), similarity=alike)("Where?").stop_reason == "finished"
    tell()
    assert MetaRAG(Shelves(), similarity=alike, threshold=0.41, max_rounds=1)("Where?").hops[0].verdict == "revised"


@pytest.mark.parametrize(
    ("answer", "other", "agreement"),
    [("Smith", "John Smith.", 1.0), ("John Smith", "John Brown", 0.0), ("12 May 1990", "3 May 1990", 0.0)],
)
def test_without_a_similarity_one_answer_must_contain_the_other(tell, answer, other, agreement):
    tell(answering=answer, monitoring=other)
    assert MetaRAG(Shelves(), max_rounds=1)("Who?").details["agreement"][0] == agreement


@pytest.mark.parametrize("refusal", ["Not mentioned in the passages.", "unknown", "The passages do not say.", "未提及"])
def test_two_refusals_do_not_agree_and_the_search_goes_on(tell, refusal):
    tell(answering=refusal, monitoring=[refusal, "Veld"])
    search = Shelves()
    result = MetaRAG(search)("Where?")
    assert (result.answer, result.stop_reason, len(search.queries)) == ("Veld", "finished", 2)
    assert result.details["agreement"] == [None, 1.0]


def test_overruled_second_readings_and_empty_feedback_are_no_demonstrations_and_no_advice(tell):
    story = tell(evaluating={"feedback": "None.", "correct": False}, monitoring=["Tarn", "Veld"])
    program = MetaRAG(Shelves())
    _, trace = traced(program, "Where?")
    read = [reply.answer for predictor, _, reply in trace if predictor is program.monitoring]
    assert read == ["Veld"]
    assert shown(story.prompts("advised")[0], "advice").endswith("Think step by step.")


@pytest.mark.parametrize("passages", [[], None], ids=["given none", "found none"])
def test_with_nothing_to_read_it_answers_from_memory_and_searches_once_more(tell, passages):
    story = tell(recalling="Tren")
    program = MetaRAG(lambda query, k: [])
    result, trace = traced(program, "Where?", passages=passages)
    assert (result.answer, result.passages, result.citations, result.stop_reason) == ("Tren", [], [], "nothing found")
    assert sorted(story.kinds()) == ["evaluating", "knowing", "recalling", "searching"]
    assert [(hop.question, hop.answer, hop.verdict) for hop in result.hops] == [
        ("Where?", "Tren", "revised"),
        ("first query", "Tren", "given"),
    ]
    assert not [output for _, _, output in trace if "answer" in output]


def test_given_no_passages_and_no_retriever_nothing_but_memory_is_asked(tell):
    story = tell(recalling="Tren")
    result = MetaRAG()("Where?", passages=[])
    assert (result.answer, result.stop_reason, story.kinds()) == ("Tren", "nothing found", ["recalling"])


def test_what_a_later_search_finds_is_read_as_ever(tell):
    story = tell(recalling="Tren", monitoring="Veld")
    result = MetaRAG(Shelves())("Where?", passages=[])
    assert (result.answer, result.stop_reason) == ("Veld", "finished")
    assert "sufficing" not in story.kinds()
    assert story.kinds()[-2:] == ["advised", "monitoring"]


def test_given_passages_without_a_retriever_are_never_searched_beyond(tell):
    story = tell()
    result = MetaRAG(max_rounds=1)("Where?", passages=[Passage(id="g", title="Veld", text="Veld is an island.")])
    assert "searching" not in story.kinds()
    assert (result.citations, result.hops[1].passage_ids) == (["g"], [])


def test_chinese_answers_are_compared_by_characters(tell):
    tell(answering="特伦岛", monitoring="特伦岛。")
    assert MetaRAG(Shelves())("她出生在哪个岛上？").details["agreement"] == [1.0]
    tell(answering="琥珀海", monitoring="黑海", advised="特伦岛")
    assert MetaRAG(Shelves(), max_rounds=1)("她出生在哪个岛上？").details["agreement"] == [0.0, 0.0]
