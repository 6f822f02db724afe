import pytest

from programs.multi_step.iter_retgen import IterRetGen
from signatures.types import Passage
from tests.programs.fakes import Fake

QUESTION = "In which sea was Ansa Merrow born?"


class Numbered(Fake):
    """Returns passages named after the number of the search."""

    def find(self, query, k):
        number = len(self.asked)
        return [
            Passage(id=f"{number}{letter}", text=f"Search {number}, {letter}. Found sea{number}.")
            for letter in "abcdefg"
        ]


def generating(*generations, read="read"):
    """Reply with the generations in order, and with `read` as the shared reader."""
    remaining = iter(generations)

    def reply(system, user):
        return next(remaining) if "step by step" in system else {"answer": read}

    return reply


def said(reasoning, answer="x"):
    return {"reasoning": reasoning, "answer": answer}


def test_each_generation_and_the_question_search_for_fresh_passages(scripted):
    engine = scripted(generating(said("She was born on Quillon.", "Grey"), said("Quillon is there.", "Amber")))
    search = Numbered()
    result = IterRetGen(search, k=2, iterations=3, reader="direct")(QUESTION)
    assert search.queries == [
        QUESTION,
        f"She was born on Quillon. Grey {QUESTION}",
        f"Quillon is there. Amber {QUESTION}",
    ]
    for number, prompt in enumerate(engine.prompts, start=1):
        assert [f"Search {other}," in prompt for other in (1, 2, 3)] == [number == other for other in (1, 2, 3)]
    assert [(hop.question, hop.answer, hop.passage_ids) for hop in result.hops] == [
        (search.queries[0], "Grey", ["1a", "1b"]),
        (search.queries[1], "Amber", ["2a", "2b"]),
        (search.queries[2], "read", ["3a", "3b"]),
    ]
    assert [passage.id for passage in result.passages] == ["1a", "1b", "2a", "2b", "3a", "3b"]
    assert (result.answer, result.stop_reason) == ("read", "done")
    assert result.details == {"generations": ["She was born on Quillon. Grey", "Quillon is there. Amber"]}


@pytest.mark.parametrize("reader", ["direct", "thought"])
@pytest.mark.parametrize("iterations", [1, 2, 7])
def test_every_iteration_is_one_call_and_none_ends_early(scripted, reader, iterations):
    engine = scripted(generating(*[said("The same.", "Same")] * 7, read="Same"))
    search = Numbered()
    program = IterRetGen(search, iterations=iterations, reader=reader)
    assert program("Question?").answer == "Same"
    assert len(engine.requests) == len(search.queries) == program.max_calls() == iterations
    with_steps = [request for request in engine.requests if "step by step" in str(request.system)]
    assert len(with_steps) == iterations - (reader == "direct")


def test_the_answer_of_the_last_generation_is_that_of_the_chain_of_thought(scripted):
    scripted(generating(said("One.", "first"), said("Two.", "second")))
    assert IterRetGen(Numbered(), reader="thought")(QUESTION).answer == "second"


def test_after_an_unparseable_generation_the_question_alone_is_searched_for(scripted):
    scripted(generating("?"))
    search = Numbered()
    result = IterRetGen(search, reader="direct")(QUESTION)
    assert (search.queries, result.answer, result.stop_reason) == ([QUESTION, QUESTION], "read", "done")
    assert [hop.answer for hop in result.hops] == ["", "read"]


def test_an_unparseable_or_empty_last_generation_leaves_the_answer_before(scripted):
    scripted(generating(said("One.", "first"), "?"))
    result = IterRetGen(Numbered(), reader="thought")(QUESTION)
    assert (result.answer, result.stop_reason) == ("first", "unparseable")
    scripted(generating(said("One.", "first"), read=""))
    result = IterRetGen(Numbered(), reader="direct")(QUESTION)
    assert (result.answer, result.stop_reason) == ("first", "done")


def test_fixed_passages_replace_the_first_retrieval_or_all(scripted, passages):
    scripted(generating(said("One.", "first")))
    search = Numbered()
    result = IterRetGen(search, k=1, reader="direct")(QUESTION, passages=passages[:2])
    assert [passage.id for passage in result.passages] == ["p0", "p1", "1a"]
    assert search.queries == [f"One. first {QUESTION}"]
    scripted(generating(said("One.", "first")))
    assert [passage.id for passage in IterRetGen(reader="direct")(QUESTION, passages=passages[:2]).passages] == [
        "p0",
        "p1",
    ]


def test_with_nothing_to_read_the_chain_of_thought_goes_on_from_memory(scripted):
    engine = scripted(generating(said("One.", "first"), said("Two.", "second")))
    result = IterRetGen(reader="direct")(QUESTION, passages=[])
    assert (result.answer, result.citations, result.passages) == ("second", [], [])
    assert len(engine.requests) == 2


def test_citations_are_of_the_last_passages(scripted):
    scripted(generating(said("One."), read="sea2"))
    assert IterRetGen(Numbered(), k=2, reader="direct")(QUESTION).citations == ["2a", "2b"]
    scripted(generating(said("One."), read="sea1"))
    assert IterRetGen(Numbered(), k=2, reader="direct")(QUESTION).citations == []


def test_a_chinese_generation_is_a_query(scripted):
    scripted(generating(said("梅罗出生在特伦岛。", "琥珀海"), read="琥珀海"))
    search = Numbered()
    assert IterRetGen(search, reader="direct")("梅罗出生在哪片海？").answer == "琥珀海"
    assert search.queries[1] == "梅罗出生在特伦岛。 琥珀海 梅罗出生在哪片海？"
