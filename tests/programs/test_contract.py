"""What every program of the catalog owes: the same in and out, frozen and loaded alike, and no state."""

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import dspy
import pytest

from programs.artifact import freeze, load
from programs.catalog import PROGRAMS, build
from programs.parts.knobs import knobs_of
from programs.parts.stop_reasons import STOP_REASONS
from signatures.types import Hop, Passage
from tests.programs.obliging import obliging

FIELDS = {"answer", "response", "hops", "passages", "citations", "abstained", "details", "stop_reason"}


@pytest.fixture(params=sorted(PROGRAMS))
def name(request):
    return request.param


def test_in_and_out_are_the_same(name, scripted, retriever):
    scripted(obliging)
    result = build(name, retriever)("Question?")
    assert set(result.keys()) == FIELDS
    assert isinstance(result.answer, str)
    assert isinstance(result.response, str)
    assert result.answer
    assert all(isinstance(hop, Hop) for hop in result.hops)
    assert all(isinstance(passage, Passage) for passage in result.passages)
    read = [passage.id for passage in result.passages]
    assert len(read) == len(set(read))
    assert set(result.citations) <= set(read)
    assert result.abstained is False
    assert result.stop_reason in STOP_REASONS


def test_given_passages_need_no_retriever(name, scripted, passages):
    scripted(obliging)
    result = build(name)("Question?", passages=passages[3:5])
    assert {passage.id for passage in result.passages} <= {"p3", "p4"}


def test_unparseable_replies_are_no_exception(name, scripted, retriever):
    scripted(lambda system, user: "?")
    result = build(name, retriever)("Question?")
    assert (result.answer, result.abstained) == ("", True)


def test_the_call_bound_holds(name, scripted, retriever):
    engine = scripted(obliging)
    program = build(name, retriever)
    program("Question?")
    assert 1 <= len(engine.requests) <= program.max_calls()


def test_eight_threads_give_the_results_of_one(name, scripted, retriever):
    scripted(obliging)
    program = build(name, retriever)
    questions = [f"Question {number}?" for number in range(16)]
    alone = [program(question).toDict() for question in questions]
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(copy_context().run, program, question) for question in questions]
    assert [future.result().toDict() for future in futures] == alone


def test_running_changes_nothing_in_the_program(name, scripted, retriever):
    scripted(obliging)
    program = build(name, retriever)
    before = dict(vars(program)), program.dump_state()
    program("Question?")
    assert {key for key in vars(program) if key != "history"} == {key for key in before[0] if key != "history"}
    assert program.dump_state() == before[1]


def test_a_deep_copy_shares_the_retriever_and_answers_alike(name, scripted, retriever):
    scripted(obliging)
    program = build(name, retriever)
    copy = program.deepcopy()
    assert copy.retrieve is retriever
    assert copy("Question?").toDict() == program("Question?").toDict()


def test_a_loaded_program_answers_as_the_frozen_one(name, scripted, retriever, tmp_path):
    engine = scripted(obliging)
    program = build(name, retriever)
    for _, predictor in program.named_predictors():
        predictor.demos = [dspy.Example(question="demo", answer="shown", augmented=True)]
        predictor.signature = predictor.signature.with_instructions("Do as tuned.")
    expected = program("Question?").toDict()
    asked = sorted(str(request.messages) for request in engine.requests)  # in parallel they come in any order
    freeze(program, tmp_path / "artifact")
    engine.requests.clear()
    assert load(tmp_path / "artifact", retriever)("Question?").toDict() == expected
    assert sorted(str(request.messages) for request in engine.requests) == asked


def test_every_knob_has_a_default_and_is_kept_under_its_name(name):
    program = build(name)
    for knob in knobs_of(program).values():
        assert getattr(program, knob.name) == knob.default


def test_every_preset_builds(name):
    for preset in PROGRAMS[name].PRESETS:
        assert build(name, preset=preset).max_calls() >= 1


def test_the_docstring_names_its_source(name):
    import sys

    assert "https://" in sys.modules[PROGRAMS[name].__module__].__doc__


def test_a_run_can_describe_it(name, retriever):
    """What `verihop eval` writes about a program, whose knobs may have any name."""
    from experiments.runs.config import describe_program

    described = describe_program(build(name, retriever))
    assert described["name"] == name
    assert set(described["knobs"]) == set(knobs_of(build(name)))
