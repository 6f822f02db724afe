"""Every program of the catalog, compiled with bootstrapped demonstrations, freezes and loads unchanged."""

import pytest

from corpora.index.open import open_index
from corpora.questions import read_questions
from experiments.world.connect import connect_any
from optimizers.examples import to_examples
from optimizers.metrics.catalog import get_metric
from optimizers.teleprompters.compile import compile
from optimizers.teleprompters.task import Task
from programs.artifact import freeze, load
from programs.catalog import PROGRAMS, build

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(small_world):
    folder = small_world(20)
    return open_index(folder / "index"), to_examples(read_questions(folder / "questions.jsonl")[:12])


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_compiled_program_comes_back_as_it_was(name, world, tmp_path):
    retrieve, examples = world
    task = Task(trainset=examples, valset=[], score=get_metric("f1[squad]"), accept=0.3, max_demos=2, seed=0, threads=2)
    with connect_any("simulated:0", cache=False).use():
        compiled = compile(build(name, retrieve), task, optimizer="bootstrap").program
    assert any(predictor.demos for predictor in compiled.predictors())
    freeze(compiled, tmp_path / "artifact")
    assert load(tmp_path / "artifact", retrieve).dump_state() == compiled.dump_state()
