"""Demonstrations chosen per question: which are shown, and that the program itself never changes."""

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import dspy
import pytest

from programs.catalog import PROGRAMS, build
from programs.nearest_demos import NearestDemos, PoolQuestion
from programs.parts.knobs import knob_values, with_knobs
from signatures.common.errors import UserError
from tests.programs.fakes import Similar, traced


def share_of_words(one, other):
    """Return the share of words that two texts have in common."""
    first, second = (set(text.lower().strip("?").split()) for text in (one, other))
    return len(first & second) / len(first | second)


def entry(question, answer, predictor="reading"):
    demo = dspy.Example(augmented=True, question=question, passages=[], answer=answer)
    return PoolQuestion(question, {predictor: [demo]})


POOL = [
    entry("Who wrote the novel Amber?", "Ansa"),
    entry("Where is the island Quillon?", "the Grey Sea"),
    entry("Who wrote the song Brook?", "Merrow"),
]


@pytest.fixture
def program(retriever):
    return NearestDemos(build("rag", retriever, k=1), POOL, Similar(share_of_words), k=2)


def shown(engine):
    """Return the replies that the demonstrations of each request show."""
    return [[m.text for m in request.messages if m.role == "assistant"] for request in engine.requests]


def test_the_demos_are_those_of_the_nearest_questions_nearest_first(program, scripted):
    engine = scripted(lambda system, user: {"answer": "x"})
    program("Who wrote the song Amber Brook?")
    program("Where is the island Merrow?")
    first, second = shown(engine)
    assert [("Merrow" in reply, "Ansa" in reply) for reply in first] == [(True, False), (False, True)]
    assert "Grey Sea" in second[0]
    assert len(program.similarity.asked) == 2
    assert len(engine.requests) == 2  # nothing is bootstrapped


def test_a_question_never_demonstrates_itself(program):
    demos = program.demos_for("who wrote the novel amber")
    assert [demo.answer for demo in demos["reading"]] == ["Merrow", "the Grey Sea"]
    alone = NearestDemos(program.program, POOL[:1], program.similarity)
    assert alone.demos_for(POOL[0].question) == {}


def test_a_predictor_without_nearest_demos_shows_its_own(retriever, scripted):
    child = build("rag", retriever)
    child.reading.demos = [dspy.Example(question="Own?", passages=[], answer="own")]
    engine = scripted(lambda system, user: {"answer": "x"})
    NearestDemos(child, [PoolQuestion("Who?", {"reading": []})], Similar(share_of_words))("What?")
    assert "own" in shown(engine)[0][0]


def test_the_trace_names_the_predictors_of_the_program(program, scripted):
    scripted(lambda system, user: {"answer": "x"})
    _, trace = traced(program, "Who wrote it?")
    ((predictor, inputs, _),) = trace
    assert predictor is program.program.reading
    assert predictor is program.predictors()[0]
    assert inputs["question"] == "Who wrote it?"


def test_an_error_leaves_the_trace_in_order_too(retriever, scripted):
    class Failing(dspy.Module):
        def __init__(self):
            super().__init__()
            self.reading = build("rag", retriever).reading

        def forward(self, question, passages=None):
            self.reading(question=question, passages=[])
            raise UserError("no server")

    scripted(lambda system, user: {"answer": "x"})
    program = NearestDemos(Failing(), POOL, Similar(share_of_words))
    with dspy.context(trace=[]), pytest.raises(UserError, match="no server"):
        program("Who wrote it?")
    with dspy.context(trace=[]):
        with pytest.raises(UserError):
            program("Who wrote it?")
        assert dspy.settings.trace[0][0] is program.program.reading


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_every_strategy_shows_them_in_each_predictor_that_has_some_and_stays_as_it_was(
    name, retriever, scripted, monkeypatch
):
    child = build(name, retriever)
    first, predictor = child.named_predictors()[0]
    outputs = {field: "SHOWN" for field, info in predictor.signature.output_fields.items() if info.annotation is str}
    demo = dspy.Example(**dict.fromkeys(predictor.signature.input_fields, "shown"), **outputs)
    if len(outputs) < len(predictor.signature.output_fields):  # bools and lists
        demo = dspy.Example(**{**dict.fromkeys(predictor.signature.fields, "SHOWN"), **outputs})
    before = child.dump_state()
    engine = scripted(lambda system, user: "?")
    program = NearestDemos(child, [PoolQuestion("Who?", {first: [demo]})], Similar(share_of_words))
    result = program("What?")
    assert any("SHOWN" in reply for replies in shown(engine) for reply in replies)
    assert result.abstained
    assert child.dump_state() == before
    assert program.max_calls() == child.max_calls()


def test_eight_threads_show_each_question_its_own_demos(program, scripted):
    engine = scripted(lambda system, user: {"answer": "x"})
    questions = [f"Who wrote the song number {n}?" if n % 2 else f"Where is the island number {n}?" for n in range(40)]
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(copy_context().run, program, question) for question in questions]
        for future in futures:
            future.result()
    assert len(engine.requests) == 40
    for request, replies in zip(engine.requests, shown(engine), strict=True):
        island = "Where is the island number" in request.messages[-1].text
        assert ("Grey Sea" in replies[0]) == island
    assert program.program.reading.demos == []


def test_the_number_of_neighbours_is_a_knob(program):
    assert knob_values(program) == {"k": 2}
    other = with_knobs(program, k=1)
    assert (other.k, program.k) == (1, 2)
    assert len(other.demos_for("Who wrote it?")["reading"]) == 1
    assert other.program is program.program
    with pytest.raises(UserError, match="Knob k must be a number from 1 to 16"):
        with_knobs(program, k=0)


def test_an_empty_pool_and_unknown_predictors_are_refused(program):
    with pytest.raises(UserError, match="pool of demonstrations is empty"):
        NearestDemos(program.program, [], program.similarity)
    with pytest.raises(UserError, match="predictor of the pool 'writing'. Choose from: reading"):
        NearestDemos(program.program, [entry("Q?", "a", "writing")], program.similarity)
