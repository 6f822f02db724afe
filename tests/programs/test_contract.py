"""What every program of the catalog owes; the checks are those of `verihop programs check`."""

import sys

import pytest

from programs.catalog import PROGRAMS, build
from programs.own.contract import check_program, points
from programs.parts.knobs import knobs_of
from signatures.voting import is_answer
from tests.programs.obliging import obliging


@pytest.fixture(params=sorted(PROGRAMS))
def name(request):
    return request.param


@pytest.mark.slow
@pytest.mark.parametrize("point", points())
def test_the_contract_is_kept(name, point):
    (result,) = check_program(PROGRAMS[name], only=[point])
    assert result.broken is None


def test_an_obliging_lm_gets_it_to_an_answer(name, scripted, retriever):
    engine = scripted(obliging)
    program = build(name, retriever)
    result = program("Question?")
    assert is_answer(result.answer)
    assert result.abstained is False
    assert 1 <= len(engine.requests) <= program.max_calls()


def test_the_docstring_names_its_source(name):
    assert "https://" in sys.modules[PROGRAMS[name].__module__].__doc__


def test_a_run_can_describe_it(name, retriever):
    """What `verihop eval` writes about a program, whose knobs may have any name."""
    from experiments.runs.config import describe_program

    described = describe_program(build(name, retriever))
    assert described["name"] == name
    assert set(described["knobs"]) == set(knobs_of(build(name)))
