"""RAG reads at once, or states the facts first."""

import dspy
import pytest

from programs.multi_step.flare import FLARE
from programs.multi_step.ircot import IRCoT
from programs.multi_step.iter_retgen import IterRetGen
from programs.multi_step.multihop import MultiHop
from programs.single_step.rag import RAG
from signatures.common.errors import UserError
from signatures.types import Passage
from tests.programs.fakes import traced

PASSAGES = [Passage(id="tarn", title="Tarn", text="Tarn lies in Orn.")]


def test_the_reader_cot_states_facts_before_its_answer(scripted):
    engine = scripted(lambda system, user: {"reasoning": "Tarn lies in Orn.", "answer": "Orn"})
    made = RAG(reader="cot")(question="Where is Tarn?", passages=PASSAGES)
    assert (made.answer, made.citations) == ("Orn", ["tarn"])
    assert "each fact that is needed" in str(engine.requests[0].system)


def test_direct_is_the_default_and_asks_for_the_answer_alone(scripted):
    engine = scripted(lambda system, user: {"answer": "Orn"})
    assert RAG()(question="Where is Tarn?", passages=PASSAGES).answer == "Orn"
    assert "reasoning" not in str(engine.requests[0].system)


def test_one_prompt_for_all_readers_that_reason():
    asked = [RAG(reader="cot").reading, MultiHop().reading, IRCoT(reader="cot").reading]
    fields = [one.predict.signature.output_fields["reasoning"].json_schema_extra["desc"] for one in asked]
    assert len(set(fields)) == 1


def test_an_unknown_reader_is_refused():
    with pytest.raises(UserError, match="reader"):
        RAG(reader="slow")


def stating(lower="lower", answer="Tarn"):
    return {
        "first": "Tarn",
        "first_value": "1640",
        "second": "Brook",
        "second_value": "May 1702",
        "wanted": lower,
        "answer": answer,
    }


def test_of_two_things_that_are_compared_both_values_are_stated_and_decide(scripted):
    engine = scripted(lambda system, user: stating("higher") if "first_value" in system else {"answer": "Orn"})
    program = RAG(compare=True)
    assert program(question="Which was built later, Tarn or Brook?", passages=PASSAGES).answer == "Brook"
    assert program(question="Where is Tarn?", passages=PASSAGES).answer == "Orn"
    assert program.max_calls() >= max(1, len(engine.requests) - 1)


@pytest.mark.parametrize("program", [RAG, MultiHop, IRCoT, IterRetGen, FLARE])
def test_of_two_things_the_words_of_their_passages_decide_without_the_lm(program, scripted):
    engine = scripted(lambda system, user: {"answer": "Brook"})
    found = [*PASSAGES, Passage(id="brook", title="Brook", text="Brook is a film.")]
    made = program(compare=True)(question="Which one lies in Orn, Tarn or Brook?", passages=found)
    assert (made.answer, made.citations[0], made.stop_reason) == ("Tarn", "tarn", "done")
    assert engine.requests == []


def test_a_comparison_that_cannot_be_read_is_read_as_any_other_question(scripted):
    scripted(lambda system, user: "so be it" if "first_value" in system else {"answer": "Brook"})
    made = RAG(compare=True)(question="Which was built later, Tarn or Brook?", passages=PASSAGES)
    assert (made.answer, made.stop_reason) == ("Brook", "done")


def test_owners_of_values_are_searched_for_and_the_values_asked_for_again(scripted):
    film = {**stating("lower", "Orn"), "first": "Orn", "first_value": "Ole Lind", "second_value": "Ida Lund"}
    dated = {**film, "first": "Ole Lind", "first_value": "1950", "second": "Ida Lund", "second_value": "1901"}
    engine = scripted(lambda system, user: dated if "of Ole Lind or Ida Lund?" in user else film)
    shelf = {"Ole Lind": "Ole Lind was born in 1950.", "Ida Lund": "Ida Lund was born in 1901."}

    class Search:
        fingerprint = "shelf"

        def __call__(self, query, k):
            return [Passage(id=query, text=shelf.get(query, "Orn is a film by Ole Lind, Brook one by Ida Lund."))]

        def many(self, queries, k):
            return [self(query, k) for query in queries]

    made = RAG(Search(), compare=True)(question="Whose director is older, of Orn or Brook?")
    assert made.answer == "Brook"
    assert [passage.id for passage in made.passages][1:] == ["Ole Lind", "Ida Lund"]
    assert len(engine.requests) == 2 < RAG(compare=True).max_calls()
    assert RAG(compare=True)(question="Whose director is older, of Orn or Brook?", passages=PASSAGES).answer == "Orn"


class Shelf:
    """Finds what is titled as the query, else the passages of the two films."""

    fingerprint = "shelf"

    def __init__(self, people=("Ole Lind", "Ida Lund")):
        self.people = people

    def __call__(self, query, k):
        films = [Passage(id=film, title=film, text=f"{film} is a film of 1920.") for film in ("Orn", "Other", "Brook")]
        return [Passage(id=query, title=query, text="Born.")] if query in self.people else films

    def many(self, queries, k):
        return [self(query, k) for query in queries]


def owned(first_value, second_value):
    return {**stating(), "first": "Orn", "first_value": first_value, "second": "Brook", "second_value": second_value}


def test_what_the_question_names_is_read_alone_and_owners_in_front_of_a_value_are_looked_up(scripted):
    film = owned("Ole Lind: 1920", "Ida Lund: 1930")
    dated = {**film, "first": "Ole Lind", "first_value": "1950", "second": "Ida Lund", "second_value": "1901"}
    engine = scripted(lambda system, user: dated if "of Ole Lind or Ida Lund?" in user else film)
    made = RAG(Shelf(), compare=True)(question="Whose director is older, of Orn or Brook?")
    assert (made.answer, len(engine.requests)) == ("Brook", 2)
    assert "Other is a film" not in str(engine.requests[0])
    assert [passage.id for passage in made.passages] == ["Orn", "Other", "Brook", "Ole Lind", "Ida Lund"]


def test_owners_that_cannot_be_found_leave_what_was_stated(scripted):
    engine = scripted(lambda system, user: owned("Ole Lind: 1920", "Ida Lund: 1930"))
    made = RAG(Shelf(people=["Ole Lind"]), compare=True)(question="Whose director is older, of Orn or Brook?")
    assert (made.answer, len(engine.requests)) == ("Orn", 1)
    found = [Passage(id=name, title=name, text="Of 1920.") for name in ("Orn", "Ole Lind", "Ida Lund")]
    read = RAG(Shelf(), compare=True)(question="Whose director is older, of Orn or Brook?", passages=found)
    assert (read.answer, len(engine.requests)) == ("Orn", 2)


def test_a_reply_that_decides_nothing_in_the_end_is_no_demonstration(scripted):
    film = {**stating("lower", "Orn"), "first": "Orn", "first_value": "Ole Lind", "second_value": "Ida Lund"}
    undated = {**film, "first": "Ole Lind", "first_value": "unknown", "second": "Ida Lund", "second_value": "unknown"}
    scripted(
        lambda system, user: (
            undated if "of Ole Lind or Ida Lund?" in user else film if "second_value" in system else {"answer": "Brook"}
        )
    )
    found = [Passage(id="orn", text="Orn is a film by Ole Lind, Brook one by Ida Lund.")]

    class Search:
        fingerprint = "shelf"

        def __call__(self, query, k):
            return found

        def many(self, queries, k):
            return [found for _ in queries]

    program = RAG(Search(), compare=True)
    with dspy.context(trace=[]):
        made = program(question="Whose director is older, of Orn or Brook?")
        asked = [predictor for predictor, *_ in dspy.settings.trace]
    assert made.answer == "Brook"
    assert asked == [program.reading]


def test_without_passages_nothing_is_compared(scripted):
    scripted(lambda system, user: {"answer": "Tarn"} if "first_value" not in system else stating())
    assert RAG(compare=True)(question="Was Tarn or Brook built later?", passages=[]).answer == "Tarn"


def test_a_reply_that_its_values_overrule_is_no_demonstration(scripted):
    scripted(lambda system, user: stating("higher"))
    with dspy.context(trace=[]):
        RAG(compare=True)(question="Which was built later, Tarn or Brook?", passages=PASSAGES)
        assert not dspy.settings.trace
    scripted(lambda system, user: stating("higher", "Brook"))
    with dspy.context(trace=[]):
        RAG(compare=True)(question="Which was built later, Tarn or Brook?", passages=PASSAGES)
        assert len(dspy.settings.trace) == 1


def test_the_confidence_is_the_probability_of_the_answer_that_was_read(scored):
    head, end = ("[[ ## answer ## ]]\n", 1.0), ("[[ ## completed ## ]]", 0.1)
    engine = scored(lambda system, user: [head, ("Or", 0.5), ("n", 0.5), ("\n\n", 0.5), end])
    made, trace = traced(RAG(), "Where is Tarn?", passages=PASSAGES)
    assert (made.answer, made.details) == ("Orn", {"confidence": 0.125})
    assert [dict(entry[2]) for entry in trace] == [{"answer": "Orn"}]  # no demonstration has log-probabilities
    assert len(engine.requests) == 1


def test_the_confidence_of_a_letter_is_not_that_of_the_word_that_closes_the_reply(scored):
    head, end = ("[[ ## answer ## ]]\n", 1.0), ("\n\n[[ ## completed ## ]]", 1.0)
    scored(lambda system, user: [head, ("d", 0.5), end])
    assert RAG()("Which is it, c or d?", passages=PASSAGES).details == {"confidence": 0.5}


def test_there_is_no_confidence_without_log_probabilities_or_without_reading(scored, scripted):
    scored(lambda system, user: [("Orn", 0.5)])
    assert RAG()("Where is Tarn?", passages=[]).details == {}
    found = [*PASSAGES, Passage(id="brook", title="Brook", text="Brook is a film.")]
    assert RAG(compare=True)("Which one lies in Orn, Tarn or Brook?", passages=found).details == {}
    scripted(lambda system, user: {"answer": "Orn"})
    assert RAG()("Where is Tarn?", passages=PASSAGES).details == {}
