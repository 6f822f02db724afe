"""A cascade is replayed as it runs: for other thresholds, and for other weights."""

import pytest

from optimizers.replay.exploring import drawn_settings, explore
from optimizers.replay.memory import Memory
from optimizers.replay.record import Record
from optimizers.replay.replaying import Runner, Unseen, replay
from programs.cascade import Cascade
from programs.catalog import build
from programs.parts.gates import replayable_knobs

SETTINGS = [
    *({"threshold": step / 20} for step in range(21)),
    {"weights": "bias=-1 answer_length=3 question_length=1"},
    {"weights": "refused=-2 yes_no=1", "threshold": 0.4},
]


@pytest.fixture
def recorded(oracle):
    """Return the record of a cascade whose gate was explored, and its runner."""
    shelves = oracle.Shelves()
    weights = "bias=-0.5 refused=1 coverage=2 answer_length=-1"
    program = Cascade(build("rag", shelves, k=2), build("multihop", shelves), weights=weights)
    record = Record(oracle.run_description(program, "cascade"), program)
    runner = Runner.for_program(program, record, oracle.scores)
    drawn = drawn_settings(runner.program, count=20)
    with oracle.connection():
        for number in range(8):
            explore(runner, oracle.example(number), Memory(), drawn, most=2, keep=lambda *leaf: None)
    return record, runner


def test_threshold_and_weights_are_read_by_the_gate_alone():
    assert replayable_knobs(Cascade) == ("threshold", "weights")


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_replay_equals_running_the_cascade(setting, recorded, oracle):
    record, runner = recorded
    for number, outcome in enumerate(replay(record, setting, metric="luck")):
        assert not isinstance(outcome, Unseen)
        with oracle.connection():
            real, _ = oracle.really(runner.program, oracle.example(number), setting, "luck")
        assert (outcome.id, outcome.score, outcome.costs) == (real.id, real.score, real.costs)
