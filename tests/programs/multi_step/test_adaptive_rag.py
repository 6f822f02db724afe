"""Adaptive-RAG: which route a reply leads to, and what each route asks, reads and returns."""

import pytest

from programs.lms.adapter import ChatForm
from programs.multi_step.adaptive_rag import ROUTES, AdaptiveRAG
from programs.multi_step.ircot import IRCoT
from programs.single_step.rag import RAG
from signatures.multi_step.adaptive_rag import JudgeComplexity
from signatures.types import Passage
from tests.programs.fakes import Fake, traced

QUESTION = "In which sea was Ansa Merrow born?"
BIRTH, END = "Ansa Merrow was born on Quillon.", "So the answer is: the Amber Sea."


class Shelves(Fake):
    """Returns new passages for any query."""

    def __init__(self, empty=False):
        super().__init__()
        self.empty = empty

    def find(self, query, k):
        names = [f"{query[:12]} {number}" for number in range(k)]
        return [] if self.empty else [Passage(id=name, text=f"Amber Sea, {name}.") for name in names]


KINDS = {
    "Judge how much": "classify",
    "Answer the question from what": "recall",
    "Continue the reasoning": "think",
    "Answer the question with what": "read",
}


def kinds(engine):
    return [
        next(kind for start, kind in KINDS.items() if str(each.system).startswith(start)) for each in engine.requests
    ]


def judging(complexity, *sentences, answer="Amber Sea"):
    """Reply with this complexity (text if it is no label), these sentences in order, and this answer."""
    remaining = iter(sentences or (BIRTH, END))

    def reply(system, user):
        if system.startswith("Judge how much"):
            return complexity if complexity.startswith(("?", "{", "I ")) else {"complexity": complexity}
        return {"sentence": next(remaining)} if system.startswith("Continue") else {"answer": answer}

    return reply


def test_a_simple_question_is_answered_from_memory(scripted):
    engine, shelves = scripted(judging("simple")), Shelves()
    result = AdaptiveRAG(shelves)(QUESTION)
    assert (kinds(engine), shelves.asked) == (["classify", "recall"], [])
    assert all(QUESTION in prompt for prompt in engine.prompts)
    assert (result.answer, result.stop_reason) == ("Amber Sea", "done")
    assert (result.passages, result.citations, result.hops) == ([], [], [])
    assert result.details == {"complexity": "simple", "route": "none"}


def test_a_moderate_question_is_read_from_one_retrieval_as_rag_does(scripted):
    engine, shelves = scripted(judging("moderate")), Shelves()
    result = AdaptiveRAG(shelves)(QUESTION)
    assert (kinds(engine), shelves.asked) == (["classify", "read"], [(QUESTION, 15)])
    assert "[15] Amber Sea" in engine.prompts[1]
    rag = RAG(Shelves(), k=15)(QUESTION)
    assert {**result.toDict(), "details": {}} == rag.toDict()
    assert result.details == {"complexity": "moderate", "route": "one"}


def test_a_complex_question_is_answered_as_ircot_does(scripted):
    engine, shelves = scripted(judging("complex")), Shelves()
    result = AdaptiveRAG(shelves)(QUESTION)
    assert kinds(engine) == ["classify", "think", "think", "read"]
    assert shelves.asked == [(QUESTION, 6), (BIRTH, 6)]
    alone = scripted(judging("complex"))
    ircot = IRCoT(Shelves(), k=6)(QUESTION)
    assert engine.prompts[1:] == alone.prompts
    assert {**result.toDict(), "details": {}} == {**ircot.toDict(), "details": {}}
    assert result.details == {"complexity": "complex", "route": "several", **ircot.details}
    assert [hop.answer for hop in result.hops] == [BIRTH, END]


@pytest.mark.parametrize(
    ("said", "complexity"),
    [
        ("Complex.", "complex"),
        ("simple or moderate", "moderate"),
        ("simple, moderate, complex", "complex"),
        ("It depends", None),
        ("", None),
        ('{"complexity": "复杂"}', "complex"),
        ('{"complexity": "简单。"}', "simple"),
        ("??", None),
        ("I think that it is a simple question.", "simple"),
    ],
)
def test_the_hardest_word_of_any_reply_counts_and_without_one_the_question_is_moderate(scripted, said, complexity):
    scripted(judging(said))
    details = AdaptiveRAG(Shelves())(QUESTION).details
    assert (details["complexity"], details["route"]) == (complexity, ROUTES[complexity or "moderate"])


def test_the_name_of_the_field_is_no_complexity(scripted):
    def reply(system, user):
        field = "complexity" if system.startswith("Judge") else "answer"
        return f"[[ ## {field} ## ]]\nhard"

    scripted(reply, ChatForm())
    assert AdaptiveRAG(Shelves())(QUESTION).details["complexity"] is None


def test_the_labels_are_those_of_the_prompt_cheapest_first():
    assert tuple(ROUTES) == JudgeComplexity.output_fields["complexity"].annotation.__args__


@pytest.mark.parametrize(
    ("route", "asked", "predictors"),
    [
        ("none", ["recall"], ["memory"]),
        ("one", ["read"], ["reading"]),
        ("several", ["think", "think", "read"], ["thinking", "reading"]),
    ],
)
def test_a_route_can_be_forced_and_then_nothing_is_classified(scripted, route, asked, predictors):
    engine = scripted(judging("?"))
    program = AdaptiveRAG(Shelves(), route=route)
    result = program(QUESTION)
    assert kinds(engine) == asked
    assert (result.details["complexity"], result.details["route"]) == (None, route)
    assert [name for name, _ in program.named_predictors()] == predictors


@pytest.mark.parametrize(("route", "calls"), [("ask", 5), ("several", 4), ("one", 1), ("none", 1)])
def test_the_call_bound_is_reached(scripted, route, calls):
    engine = scripted(judging("complex", *(f"This is sentence {number}." for number in range(9))))
    program = AdaptiveRAG(Shelves(), max_sentences=3, route=route)
    program(QUESTION)
    assert len(engine.requests) == program.max_calls() == calls
    assert AdaptiveRAG().max_calls() == 12


@pytest.mark.parametrize("complexity", ["simple", "moderate"])
def test_an_unparseable_answer_is_an_abstention(scripted, complexity):
    scripted(lambda system, user: {"complexity": complexity} if system.startswith("Judge") else "?")
    result = AdaptiveRAG(Shelves())(QUESTION)
    assert (result.answer, result.abstained, result.stop_reason) == ("", True, "unparseable")


@pytest.mark.parametrize("passages", [[], None])
@pytest.mark.parametrize(("complexity", "asked"), [("moderate", ["classify", "recall"]),
                                                   ("complex", ["classify", "think"])])  # fmt: skip
def test_where_nothing_is_found_the_answer_is_from_memory(scripted, complexity, asked, passages):
    engine = scripted(judging(complexity, END))
    result = AdaptiveRAG(Shelves(empty=True))(QUESTION, passages=passages)
    assert kinds(engine) == asked
    assert (result.answer.endswith("Amber Sea"), result.citations) == (True, [])


def test_fixed_passages_replace_the_first_retrieval_and_are_not_read_without_one(scripted, passages):
    for complexity, asked, read in (
        ("simple", [], []),
        ("moderate", [], ["p3", "p4"]),
        ("complex", [(BIRTH, 1)], ["p3", "p4", "Ansa Merrow  0"]),
    ):
        scripted(judging(complexity))
        shelves = Shelves()
        result = AdaptiveRAG(shelves, k_several=1)(QUESTION, passages=passages[3:5])
        assert (shelves.asked, [passage.id for passage in result.passages]) == (asked, read)


def test_a_chinese_question_takes_each_route(scripted):
    born = "安莎·梅罗出生在特伦岛。"
    scripted(judging("complex", born, "所以答案是：琥珀海。", answer="琥珀海"))
    shelves = Shelves()
    result = AdaptiveRAG(shelves, k_several=1)("安莎·梅罗出生在哪片海？")
    assert [query for query, _ in shelves.asked] == ["安莎·梅罗出生在哪片海？", born]
    assert (result.answer, result.details["said"]) == ("琥珀海", "琥珀海")
    scripted(judging("simple", answer="琥珀海"))
    assert AdaptiveRAG()("安莎·梅罗出生在哪片海？").answer == "琥珀海"


def test_the_classification_can_become_a_demonstration_of_the_router(scripted):
    scripted(judging("moderate"))
    program = AdaptiveRAG(Shelves())
    _, trace = traced(program, QUESTION)
    called = [predictor for predictor, *_ in trace]
    assert called == [program.routing, program.reading]
