"""What nobody names is the same in Python and in the commands, since their runs and artifacts are compared."""

import inspect
from dataclasses import MISSING, fields

import pytest

import verihop
from experiments.cli.compile import compile_
from experiments.cli.eval import eval_
from experiments.cli.shared import options
from experiments.cli.tuning.tune import tune
from experiments.pipeline.compiling.config import CompileConfig
from experiments.pipeline.setup import ProgramConfig
from experiments.pipeline.tuning.config import Candidates, TuneConfig
from experiments.runs.config import LMConfig, RunConfig

OTHER_NAMES = {"points": "grid_points", "seeds": "demo_sets", "chosen": "pick", "searched": "search"}
SAME = "threads seed split resume overwrite metric"


def defaults(function) -> dict:
    named = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in named if each.default is not inspect.Parameter.empty}


def of_fields(*configs: type) -> dict:
    return {field.name: field.default for config in configs for field in fields(config) if field.default is not MISSING}


@pytest.mark.parametrize(
    ("function", "command", "configs", "expected", "different"),
    [
        # The command chooses the processes (in Python nothing is forked unasked), and branches only with a switch.
        (
            verihop.evaluate,
            eval_,
            (RunConfig,),
            "threads seed split resume metrics oracle repeats shard",
            {"processes", "branches"},
        ),
        (verihop.compile, compile_, (CompileConfig,), f"{SAME} optimizer accept max_demos teacher", {"val"}),
        (
            verihop.tune,
            tune,
            (TuneConfig, Candidates),
            f"{SAME} points seeds trials sampler prune prune_below folds storage study accept max_demos instructions",
            {"train"},
        ),
        (verihop.load, eval_, (), "preset rerank index program", {"artifact", "lm"}),
    ],
)
def test_defaults_are_those_of_the_command(function, command, configs, expected, different):
    ours, theirs = {**of_fields(*configs), **defaults(function)}, defaults(command)
    shared = {name: OTHER_NAMES.get(name, name) for name in ours if OTHER_NAMES.get(name, name) in theirs}
    assert set(expected.split()) <= set(shared)
    assert {name for name, other in shared.items() if ours[name] != theirs[other]} - different == set()


def test_an_lm_and_a_program_are_opened_with_the_defaults_of_the_options():
    ours, theirs = of_fields(LMConfig), of_fields(options.LM)
    shared = ours.keys() & theirs.keys()
    assert {"retries", "timeout", "temperature", "cache", "reasoning"} <= shared
    assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}
    config = of_fields(ProgramConfig)
    assert all(config[name] == default for name, default in of_fields(options.AnyProgram).items() if name in config)
