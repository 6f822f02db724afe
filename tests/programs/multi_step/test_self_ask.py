import pytest

from programs.multi_step.self_ask import SelfAsk
from signatures.types import Passage
from tests.programs.fakes import block, traced

QUESTION = "In which sea was the harbour master born?"
WHO, WHERE = "Who is the harbour master?", "Where was Ansa Merrow born?"


def asks(sub_question):
    return {"finished": False, "sub_question": sub_question, "answer": ""}


def ends(answer="the Amber Sea"):
    return {"finished": True, "sub_question": "", "answer": answer}


def story(*steps, read="Ansa Merrow", memory="from memory", conclusion="concluded"):
    """Reply with the steps in order, and with the other texts where they are asked for."""
    remaining = iter(steps)

    def reply(system, user):
        if "next follow-up question" in system:
            return next(remaining)
        if "from the settled hops" in system:
            return conclusion if conclusion == "?" else {"answer": conclusion}
        if "from what you know" in system:
            return {"answer": memory}
        return read if read == "?" else {"answer": read}

    return reply


def test_follow_ups_are_searched_for_and_their_answers_lead_to_the_final_one(scripted, retriever):
    engine = scripted(story(asks(WHO), asks(WHERE), ends()))
    result = SelfAsk(retriever, k=5)(QUESTION)
    assert retriever.queries == [WHO, WHERE]
    asked, read, again, _, last = engine.prompts
    assert (block(asked, "hops"), block(asked, "question")) == ("(none)", QUESTION)
    assert (block(read, "question"), block(read, "passages").count("\n")) == (WHO, 4)
    assert block(again, "hops") == f"1. {WHO} -> Ansa Merrow"
    assert block(last, "hops") == f"1. {WHO} -> Ansa Merrow\n2. {WHERE} -> Ansa Merrow"
    assert "passages" not in asked + again
    assert [(hop.question, hop.answer, hop.verdict) for hop in result.hops] == [
        (WHO, "Ansa Merrow", "read"),
        (WHERE, "Ansa Merrow", "read"),
    ]
    assert result.hops[0].passage_ids == ["p0", "p1", "p2", "p3", "p4"]
    assert result.citations == ["p4"]
    assert (result.answer, result.stop_reason) == ("the Amber Sea", "finished")


@pytest.mark.parametrize("max_hops", [1, 5])
@pytest.mark.parametrize("forced", [True, False])
def test_the_call_bound_is_reached_and_the_final_answer_forced(scripted, retriever, max_hops, forced):
    engine = scripted(story(*(asks(f"What is number {number}?") for number in range(9))))
    program = SelfAsk(retriever, max_hops=max_hops, forced=forced)
    result = program(QUESTION)
    assert len(engine.requests) == program.max_calls() == 2 * max_hops + forced
    assert (len(result.hops), result.stop_reason) == (max_hops, "cap")
    assert (result.answer, result.abstained) == (("concluded", False) if forced else ("", True))


@pytest.mark.parametrize(
    "first", [ends("at once"), asks(""), asks("No further question is needed."), "?"], ids=["ends", "", "none", "?"]
)
def test_without_a_follow_up_at_first_the_question_is_its_own(scripted, retriever, first):
    scripted(story(first, ends()))
    program = SelfAsk(retriever)
    result, trace = traced(program, QUESTION)
    kept = [output for called, _, output in trace if called is program.asking]
    assert (retriever.queries, result.hops[0].answer, result.answer) == ([QUESTION], "Ansa Merrow", "the Amber Sea")
    assert [reply.answer for reply in kept] == ["the Amber Sea"]


@pytest.mark.parametrize(
    ("second", "reason"),
    [(asks("who is THE harbour master"), "repeated"), (asks("None"), "repeated"), ("?", "unparseable")],
)
def test_a_step_without_a_new_follow_up_forces_the_final_answer(scripted, retriever, second, reason):
    engine = scripted(story(asks(WHO), second))
    program = SelfAsk(retriever)
    result, trace = traced(program, QUESTION)
    kept = [output for called, _, output in trace if called is program.asking]
    assert (result.answer, result.stop_reason, len(result.hops)) == ("concluded", reason, 1)
    assert [reply.sub_question for reply in kept] == [WHO]
    assert block(engine.prompts[-1], "hops") == f"1. {WHO} -> Ansa Merrow"


@pytest.mark.parametrize("nothing", ["", "unknown"])
def test_a_finish_without_an_answer_is_concluded(scripted, retriever, nothing):
    scripted(story(asks(WHO), ends(nothing)))
    result = SelfAsk(retriever)(QUESTION)
    assert (result.answer, result.stop_reason) == ("concluded", "finished")


def test_an_unparseable_conclusion_leaves_the_last_intermediate_answer(scripted, retriever):
    scripted(story(asks(WHO), asks(WHO), conclusion="?"))
    assert SelfAsk(retriever)(QUESTION).answer == "Ansa Merrow"


def test_an_unparseable_intermediate_answer_is_empty(scripted, retriever):
    engine = scripted(story(asks(WHO), ends(), read="?"))
    assert SelfAsk(retriever)(QUESTION).hops[0].answer == ""
    assert block(engine.prompts[-1], "hops").strip() == f"1. {WHO} ->"


def test_without_search_the_answers_come_from_memory(scripted, retriever):
    engine = scripted(story(asks(WHO), ends()))
    result = SelfAsk(retriever, search=False)(QUESTION)
    assert (retriever.queries, result.passages, result.citations) == ([], [], [])
    assert [(hop.answer, hop.verdict) for hop in result.hops] == [("from memory", "recalled")]
    assert len(engine.requests) == 3


def test_where_the_search_finds_nothing_the_answer_comes_from_memory(scripted):
    scripted(story(asks(WHO), ends()))
    (hop,) = SelfAsk(lambda query, k: [])(QUESTION).hops
    assert (hop.answer, hop.verdict, hop.passage_ids) == ("from memory", "recalled", [])


def test_fixed_passages_replace_the_first_retrieval_or_all(scripted, retriever, passages):
    scripted(story(asks(WHO), asks(WHERE), ends()))
    result = SelfAsk(retriever, k=1)(QUESTION, passages=passages[3:5])
    assert [hop.passage_ids for hop in result.hops] == [["p3", "p4"], ["p0"]]
    assert retriever.queries == [WHERE]
    scripted(story(asks(WHO), asks(WHERE), ends()))
    result = SelfAsk()(QUESTION, passages=passages[3:5])
    assert [hop.passage_ids for hop in result.hops] == [["p3", "p4"]] * 2
    scripted(story(asks(WHO), ends()))
    assert SelfAsk()(QUESTION, passages=[]).hops[0].verdict == "recalled"


def test_chinese_follow_ups_are_compared_by_their_words(scripted):
    asked = []

    def retrieve(query, k):
        asked.append(query)
        return [Passage(id="port", text="奎隆港的港务长是安莎·梅罗。")]

    scripted(story(asks("谁是奎隆港的港务长？"), asks("谁是“奎隆港”的港务长"), read="安莎·梅罗", conclusion="特伦岛"))
    result = SelfAsk(retrieve)("奎隆港的港务长出生在哪个岛上？")
    assert (asked, result.answer, result.stop_reason) == (["谁是奎隆港的港务长？"], "特伦岛", "repeated")
    assert result.citations == ["port"]
