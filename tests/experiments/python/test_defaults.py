"""What nobody names is the same in Python and in the commands, since their runs and artifacts are compared."""

import inspect

import pytest

import verihop
from experiments.runs.specs import CompileSpec, RunSpec, StudySpec
from signatures.common.specs import fields_of

OTHER = {"val", "train"}  # no questions: () in Python, where None is no questions either


@pytest.mark.parametrize(
    ("function", "spec"),
    [(verihop.evaluate, RunSpec), (verihop.compile, CompileSpec), (verihop.tune, StudySpec)],
)
def test_defaults_are_those_of_the_command(function, spec):
    named = {name: each.default for name, each in inspect.signature(function).parameters.items() if name not in OTHER}
    shared = named.keys() & fields_of(spec).keys()
    assert len(shared) >= 2
    assert {name: named[name] for name in shared} == {name: fields_of(spec)[name].default for name in shared}
