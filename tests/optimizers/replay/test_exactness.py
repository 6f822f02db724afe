"""Replaying a setting comes to what running the program with it comes to, or is unseen where nothing was recorded."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optimizers.replay.exploring import drawn_settings, explore
from optimizers.replay.memory import Memory
from optimizers.replay.replaying import Unseen, replay
from optimizers.replay.trees import walk
from programs.parts.gates import replayable_knobs
from programs.parts.knobs import Choice, knobs_of

GATED = ["cov_rag", "retro_rag", "self_completion"]


def explored(oracle, name, *, questions, most, memories=None):
    record, runner = oracle.recorded(name)
    drawn = drawn_settings(runner.program, count=100)
    with oracle.connection():
        for number in range(questions):
            memory = (memories or {}).get(number, Memory())
            explore(runner, oracle.example(number), memory, drawn, most=most, keep=lambda *leaf: None)
    return record, runner


def in_range(name, program):
    """Return a strategy for a knob's values, the ends of its range among them."""
    knob = knobs_of(program)[name]
    if isinstance(knob.space, Choice):
        return st.sampled_from(knob.space.options)
    low, high = knob.type(knob.space.low), knob.type(knob.space.high)
    drawn = st.integers(low, high) if knob.type is int else st.floats(low, high)
    return st.sampled_from([low, high]) | drawn


@pytest.mark.parametrize("name", GATED)
def test_replay_equals_running_the_program(oracle, name):
    record, runner = explored(oracle, name, questions=4, most=6)
    knobs = st.fixed_dictionaries(
        {}, optional={each: in_range(each, runner.program) for each in replayable_knobs(runner.program)}
    )
    seen = {True: 0, False: 0}

    @settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
    @given(knobs)
    def check(setting):
        replayed = replay(record, setting, metric="luck")
        for number, outcome in enumerate(replayed):
            seen[isinstance(outcome, Unseen)] += 1
            if isinstance(outcome, Unseen):
                assert outcome.score is None
                continue
            with oracle.connection():
                real, answer = oracle.really(runner.program, oracle.example(number), setting, "luck")
            assert (outcome.id, outcome.score, outcome.costs) == (real.id, real.score, real.costs)
            leaf = walk(record.tree(outcome.id), record.setting(setting))
            assert leaf.answer == answer.strip()

    check()
    assert seen[False] > 30
