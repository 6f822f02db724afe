"""Self-RAG: when it retrieves, what is asked of each candidate, and which one wins."""

import re

import pytest

from programs.catalog import build
from programs.lms.adapter import JsonForm
from programs.single_step.self_rag import SelfRAG
from signatures.types import Passage
from tests.programs.fakes import Fake, traced

QUESTION = "Who is the harbour master of Quillon?"
NEED, RELEVANT, SUPPORTED, USEFUL = "takes facts from", "the passage is about", "the passage states", "a good response"
MEMORY = "from what you know"


def passage(name):
    return Passage(id=name, text=f"Text of {name}.")


class Finds(Fake):
    """Finds the passages named."""

    def __init__(self, names):
        super().__init__()
        self.found = [passage(name) for name in names]

    def find(self, query, k):
        return self.found


@pytest.fixture
def asked(scripted):
    """Return a function that starts an LM whose candidates are named after their passages.

    `p` maps a judgement, and the name of the candidate or None, to P(yes); what is missing is 0.5.
    """

    def start(p=None, *, answers=None, unreadable=()):
        p = p or {}

        def reply(system, user):
            kind = next((each for each in (NEED, RELEVANT, SUPPORTED, USEFUL) if each in system), None)
            name = (re.findall(r"Text of (\w+)|Answer of (\w+)", user) or [("", "")])[0]
            name = name[0] or name[1] or None
            if kind in unreadable or (kind, name) in unreadable:
                return "?"
            if kind is not None:
                return {"probability": p.get((kind, name), 0.5)}
            name = "memory" if MEMORY in system else name
            return (answers or {}).get(name) or {"answer": f"Answer of {name}"}

        return scripted(reply, JsonForm(probability_mode="verbalised"))

    return start


def of_kind(engine, words):
    return [request.messages[-1].text for request in engine.requests if words in str(request.system)]


@pytest.mark.parametrize(("need", "retrieves"), [(0.21, True), (0.2, False), (0.0, False)])
def test_it_retrieves_above_the_threshold_and_else_answers_from_memory(asked, need, retrieves):
    engine = asked({(NEED, None): need})
    retrieve = Finds("ab")
    result = SelfRAG(retrieve, k=1)(QUESTION)
    assert retrieve.asked == ([(QUESTION, 1)] if retrieves else [])
    assert result.answer == ("Answer of a" if retrieves else "Answer of memory")
    assert result.citations == (["a"] if retrieves else [])
    assert (result.details["need"], result.stop_reason) == (need, "done")
    assert len(engine.requests) == (1 + 4 if retrieves else 2)


def test_an_unparseable_decision_retrieves(asked):
    asked(unreadable=[NEED])
    result = SelfRAG(Finds("a"))(QUESTION)
    assert (result.answer, result.details["need"]) == ("Answer of a", None)


def test_each_passage_has_a_candidate_of_its_own_and_each_is_criticised(asked):
    engine = asked()
    result = SelfRAG(Finds("abc"), k=2)(QUESTION)
    readings = of_kind(engine, "with what the passages say")
    assert sorted(re.findall(r"Text of (\w)", " ".join(readings))) == ["a", "b"]
    assert all(len(re.findall("Text of", prompt)) == 1 for prompt in readings)
    for prompt in of_kind(engine, SUPPORTED):
        assert re.search(r"Text of (\w)", prompt)[1] == re.search(r"Answer of (\w)", prompt)[1]
    assert all("Answer of" not in prompt for prompt in of_kind(engine, RELEVANT))
    assert all("Text of" not in prompt for prompt in of_kind(engine, USEFUL))
    assert [len(of_kind(engine, kind)) for kind in (RELEVANT, SUPPORTED, USEFUL)] == [2, 2, 2]
    assert [each.id for each in result.passages] == ["a", "b"]


@pytest.mark.parametrize(
    ("p", "knobs", "best"),
    [
        ({}, {}, "a"),  # a tie: the first
        ({(RELEVANT, "b"): 0.6}, {}, "b"),
        ({(RELEVANT, "b"): 0.6, (SUPPORTED, "a"): 0.7}, {}, "a"),
        ({(RELEVANT, "b"): 0.6, (USEFUL, "c"): 0.59}, {}, "b"),  # 0.5 (2 * 0.59 - 1) = 0.09 < 0.1
        ({(RELEVANT, "b"): 0.6, (USEFUL, "c"): 0.61}, {}, "c"),
        ({(RELEVANT, "b"): 0.6, (USEFUL, "c"): 0.61}, {"usefulness_weight": 0.0}, "b"),
    ],
)
def test_the_highest_weighted_sum_wins(asked, p, knobs, best):
    asked(p)
    result = SelfRAG(Finds("abc"), **knobs)(QUESTION)
    assert (result.answer, result.citations) == (f"Answer of {best}", [best])


def test_the_details_record_all_candidates(asked):
    asked({(RELEVANT, "a"): 0.9, (SUPPORTED, "a"): 0.8, (USEFUL, "a"): 0.7}, unreadable=[(USEFUL, "b")])
    details = SelfRAG(Finds("ab"))(QUESTION).details
    first, second = details["candidates"]
    assert first["score"] == pytest.approx(0.9 + 0.8 + 0.5 * 0.4)
    assert (first["answer"], first["passage_id"], first["usefulness"]) == ("Answer of a", "a", 0.7)
    assert (second["usefulness"], second["score"]) == (None, pytest.approx(1.0))
    assert details["probability_mode"] == "verbalised"


def test_answers_that_lose_are_no_demonstrations(asked):
    asked({(RELEVANT, "b"): 0.9})
    program = SelfRAG(Finds("abc"), closed_book=True)
    _, trace = traced(program, QUESTION)
    kept = [reply.answer for predictor, _, reply in trace if "answer" in reply]
    assert kept == ["Answer of b"]


@pytest.mark.parametrize(("useful", "best"), [(1.0, "memory"), (0.6, "a")])
def test_the_closed_book_candidate_competes_by_its_usefulness_alone(asked, useful, best):
    low = {(RELEVANT, "a"): 0.1, (SUPPORTED, "a"): 0.1}
    asked({**low, (USEFUL, "memory"): useful})
    result = build("self_rag", Finds("a"), preset="closed_book")(QUESTION)
    assert (result.answer, result.citations) == (f"Answer of {best}", [] if best == "memory" else ["a"])
    assert [each["passage_id"] for each in result.details["candidates"]] == ["a", None]


def test_what_is_no_answer_is_no_candidate_and_is_not_judged(asked):
    engine = asked({(RELEVANT, "c"): 0.0}, answers={"a": "?", "b": {"answer": "unknown"}})
    result = SelfRAG(Finds("abc"))(QUESTION)
    assert result.answer == "Answer of c"
    assert len(engine.requests) == 1 + 3 + 3


@pytest.mark.parametrize(("reply", "reason"), [("?", "unparseable"), ({"answer": "unknown"}, "done")])
def test_without_a_candidate_it_abstains(asked, reply, reason):
    asked(answers={"a": reply, "b": reply})
    result = SelfRAG(Finds("ab"))(QUESTION)
    assert (result.answer, result.abstained, result.stop_reason) == ("", True, reason)


def test_fixed_contexts_are_read_whether_or_not_they_are_needed(asked):
    engine = asked({(NEED, None): 0.0, (RELEVANT, "y"): 0.9})
    result = SelfRAG()(QUESTION, passages=[passage("x"), passage("y"), passage("x")])
    assert (result.answer, of_kind(engine, NEED)) == ("Answer of y", [])
    assert [each.id for each in result.passages] == ["x", "y"]


@pytest.mark.parametrize("fixed", [[], None], ids=["given none", "found none"])
def test_with_nothing_to_read_the_answer_is_from_memory(asked, fixed):
    asked()
    result = SelfRAG(Finds(""))(QUESTION, passages=fixed)
    assert (result.answer, result.passages, result.stop_reason) == ("Answer of memory", [], "nothing found")


def test_without_a_decision_it_always_retrieves(asked):
    engine = asked({(NEED, None): 0.0})
    assert build("self_rag", Finds("a"), preset="always")(QUESTION).answer == "Answer of a"
    assert of_kind(engine, NEED) == []


def test_chinese_answers_compete(asked):
    asked({(RELEVANT, "b"): 0.9}, answers={"a": {"answer": "未知"}, "b": {"answer": "安莎"}})
    assert SelfRAG(Finds("ab"))("港务长是谁？").answer == "安莎"


@pytest.mark.parametrize("knobs", [{}, {"closed_book": True}, {"adaptive": False}, {"support_weight": 0.0, "k": 2}])
@pytest.mark.parametrize("mode", ["verbalised", "samples"])
def test_the_call_bound_is_reached_exactly(scripted, mode, knobs):
    def reply(system, user):
        if "one word, yes or no" in user:
            return "yes"
        name = "memory" if MEMORY in system else (re.findall(r"Text of (\w+)", user) or [""])[0]
        return {"probability": 0.9, "answer": f"Answer of {name}"}

    engine = scripted(reply, JsonForm(probability_mode=mode))
    program = SelfRAG(Finds("abcdefg"), **knobs)
    program(QUESTION)
    assert len(engine.requests) == program.max_calls()
