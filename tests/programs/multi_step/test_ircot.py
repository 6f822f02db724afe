import pytest

from programs.multi_step.ircot import IRCoT
from signatures.types import Passage
from tests.programs.fakes import Fake, block, traced

BIRTH, SEA, END = "Ansa Merrow was born on Quillon.", "Quillon lies in the Amber Sea.", "So the answer is: Amber Sea."
QUESTION = "In which sea was Ansa Merrow born?"


class Shelves(Fake):
    """Returns what was put under a query, and new passages for any other."""

    def __init__(self, **shelves):
        super().__init__()
        self.shelves = shelves

    def find(self, query, k):
        names = self.shelves.get(query.split()[0], [f"{query[:8]} {number}" for number in range(k)])
        return [Passage(id=name, text=f"Text of {name}.") for name in names]


def thinking(*sentences, answer="the Amber Sea"):
    remaining = iter(sentences)

    def reply(system, user):
        return {"sentence": next(remaining)} if "Continue the reasoning" in system else {"answer": answer}

    return reply


def ids(*passages):
    return [passage.id for passage in passages]


def test_each_sentence_is_searched_for_and_the_next_one_reads_what_it_found(scripted):
    engine = scripted(thinking(BIRTH + " It is foggy.", SEA, END))
    shelves = Shelves(In=["a", "b"], Ansa=["b", "c"], Quillon=["d"])
    result = IRCoT(shelves, k=2)(QUESTION)
    assert shelves.asked == [(QUESTION, 2), (BIRTH, 2), (SEA, 2)]
    assert [block(prompt, "reasoning") for prompt in engine.prompts[:3]] == ["", BIRTH, f"{BIRTH} {SEA}"]
    shown = [block(prompt, "passages").count("\n") + 1 for prompt in engine.prompts]
    assert shown == [2, 3, 4, 4]
    assert [(hop.question, hop.answer, hop.passage_ids) for hop in result.hops] == [
        (QUESTION, BIRTH, ["a", "b"]),
        (BIRTH, SEA, ["c"]),
        (SEA, END, ["d"]),
    ]
    assert ids(*result.passages) == ["a", "b", "c", "d"]
    assert (result.answer, result.stop_reason) == ("the Amber Sea", "finished")
    assert result.details == {"thought": f"{BIRTH} {SEA} {END}", "said": "Amber Sea"}
    assert "Continue" not in str(engine.requests[-1].system)


@pytest.mark.parametrize("reader", ["direct", "cot", "thought"])
def test_the_call_bound_is_reached_and_the_last_sentence_is_not_searched_for(scripted, reader):
    number = iter(range(99))
    think = lambda system, user: {"sentence": f"This is sentence {next(number)}.", "reasoning": "r", "answer": "x"}  # noqa: E731
    engine = scripted(think)
    shelves = Shelves()
    program = IRCoT(shelves, max_sentences=3, reader=reader)
    result = program("Question?")
    assert len(engine.requests) == program.max_calls() == 3 + (reader != "thought")
    assert (len(shelves.asked), len(result.hops), result.stop_reason) == (3, 3, "cap")
    whole = "This is sentence 0. This is sentence 1. This is sentence 2."
    assert result.answer == (whole if reader == "thought" else "x")
    assert result.details["said"] == ""


def test_the_cap_leaves_room_for_the_best_new_passages_and_then_nothing_is_searched_for(scripted):
    scripted(thinking(BIRTH, SEA, "Third one.", END))
    shelves = Shelves(In=["a", "b", "c"], Ansa=["a", "d", "e"])
    result = IRCoT(shelves, k=3, cap=4)(QUESTION)
    assert ids(*result.passages) == ["a", "b", "c", "d"]
    assert [query for query, _ in shelves.asked] == [QUESTION, BIRTH]
    assert (len(result.hops), result.stop_reason) == (4, "finished")


def test_the_first_retrieval_keeps_to_the_cap(scripted):
    scripted(thinking(END))
    shelves = Shelves()
    assert len(IRCoT(shelves, k=5, cap=2)(QUESTION).passages) == 2
    assert shelves.asked == [(QUESTION, 2)]


def test_what_the_thought_says_is_the_answer_without_a_reader(scripted):
    engine = scripted(thinking(BIRTH, END))
    result = IRCoT(Shelves(), reader="thought")(QUESTION)
    assert (result.answer, len(engine.requests)) == ("Amber Sea", 2)


def test_an_unreadable_answer_leaves_what_the_thought_says(scripted):
    scripted(lambda system, user: {"sentence": END} if "Continue" in system else "?")
    assert IRCoT(Shelves())(QUESTION).answer == "Amber Sea"


@pytest.mark.parametrize(("said", "reason"), [("?", "unparseable"), ({"sentence": ""}, "repeated")])
def test_an_unusable_sentence_ends_the_thought_and_the_reader_answers(scripted, said, reason):
    replies = iter([{"sentence": BIRTH}, said, {"answer": "the Amber Sea"}])
    scripted(lambda system, user: next(replies))
    result = IRCoT(Shelves())(QUESTION)
    assert (result.answer, result.stop_reason) == ("the Amber Sea", reason)
    assert [hop.answer for hop in result.hops] == [BIRTH, ""]


def test_a_thought_that_repeats_itself_ends_and_becomes_no_demonstration(scripted):
    scripted(thinking(BIRTH, "ansa merrow was born on Quillon"))
    program = IRCoT(Shelves())
    result, trace = traced(program, QUESTION)
    kept = [output for called, _, output in trace if called is program.thinking]
    assert [output.sentence for output in kept] == [BIRTH]
    assert result.stop_reason == "repeated"


def test_a_thought_written_again_goes_on_with_its_new_sentence(scripted):
    scripted(thinking(BIRTH, f"{BIRTH} {SEA}", END))
    assert [hop.answer for hop in IRCoT(Shelves())(QUESTION).hops] == [BIRTH, SEA, END]


def test_fixed_passages_replace_the_first_retrieval_or_all(scripted, passages):
    scripted(thinking(BIRTH, END))
    shelves = Shelves(Ansa=["new"])
    result = IRCoT(shelves, k=2)(QUESTION, passages=passages[:3])
    assert ids(*result.passages) == ["p0", "p1", "p2", "new"]
    assert [query for query, _ in shelves.asked] == [BIRTH]
    scripted(thinking(BIRTH, END))
    assert ids(*IRCoT()(QUESTION, passages=passages[:3]).passages) == ["p0", "p1", "p2"]


def test_with_nothing_to_read_the_thought_answers_from_memory(scripted):
    engine = scripted(thinking(BIRTH, END))
    result = IRCoT()(QUESTION, passages=[])
    assert (result.answer, result.citations, len(engine.requests)) == ("Amber Sea", [], 2)
    scripted(thinking(END))
    nothing = Shelves(In=[])
    assert IRCoT(nothing)(QUESTION).answer == "Amber Sea"


def test_a_chinese_thought_is_cut_searched_for_and_ended(scripted):
    born = "安莎·梅罗出生在特伦岛。"
    engine = scripted(thinking(f"{born}岛上多雾。", "所以答案是：琥珀海。", answer="琥珀海"))
    shelves = Shelves()
    result = IRCoT(shelves, k=1)("安莎·梅罗出生在哪片海？")
    assert [query for query, _ in shelves.asked] == ["安莎·梅罗出生在哪片海？", born]
    assert (result.answer, result.details["said"], result.stop_reason) == ("琥珀海", "琥珀海", "finished")
    assert block(engine.prompts[1], "reasoning") == born


def test_the_passages_that_state_the_answer_are_cited(scripted, passages):
    scripted(thinking(END, answer="Ansa Merrow"))
    assert IRCoT()("Who is it?", passages=passages).citations == ["p4"]
