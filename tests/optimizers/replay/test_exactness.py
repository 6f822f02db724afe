"""Replaying a setting comes to what running the program with it comes to, or is unseen where nothing was recorded."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optimizers.replay.exploring import drawn_settings, explore
from optimizers.replay.memory import Memory
from optimizers.replay.record import gold_sha256
from optimizers.replay.replaying import Unseen, replay
from optimizers.replay.trees import leaves_of
from programs.lms.adapter import JsonForm
from programs.parts.gates import replayable_knobs
from programs.parts.knobs import Choice, knobs_of
from signatures.common.errors import UserError

GATED = ["cascade", "cov_rag", "retro_rag", "selective", "self_completion"]
WEIGHTS = ["bias=-1 refused=2", "bias=1 stated=-2.5", "answer_length=4 coverage=-3 bias=0.5", "margin=1"]


def explored(oracle, name, *, questions, most):
    record, runner = oracle.recorded(name)
    drawn = drawn_settings(runner.program, count=100)
    with oracle.connection():
        for number in range(questions):
            branches = 1 if number < questions // 2 else most  # of the first questions only their own
            explore(runner, oracle.example(number), Memory(), drawn, most=branches, keep=lambda *leaf: None)
    return record, runner


def in_range(name, program):
    """Return a strategy for a knob's values, the ends of its range among them."""
    knob = knobs_of(program)[name]
    if name == "weights":
        return st.sampled_from(WEIGHTS)
    if isinstance(knob.space, Choice):
        return st.sampled_from(knob.space.options)
    low, high = knob.type(knob.space.low), knob.type(knob.space.high)
    drawn = st.integers(low, high) if knob.type is int else st.floats(low, high)
    return st.sampled_from([low, high]) | drawn


@pytest.mark.slow
@pytest.mark.parametrize("name", GATED)
def test_replay_equals_running_the_program(oracle, name):
    questions, trials = (2, 8) if name == "retro_rag" else (4, 20)  # of 15 and 3 calls or so
    record, runner = explored(oracle, name, questions=questions, most=6)
    plain = oracle.built(name)
    ranges = {each: in_range(each, plain) for each in replayable_knobs(plain)}
    seen = {True: 0, False: 0}

    @settings(max_examples=trials, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
    @given(st.fixed_dictionaries({}, optional=ranges))
    def check(setting):
        ids = [f"q{number}" for number in range(questions)]
        for number, outcome in enumerate(replay(record, setting, metric="luck", ids=ids)):
            question, unseen = oracle.example(number), isinstance(outcome, Unseen)
            seen[unseen] += 1
            with oracle.connection():
                leaf = runner.run(question, setting, Memory())
                real, answer = oracle.really(plain, question, setting, "luck")
            recorded = [each for each in leaves_of(record.tree(outcome.id)) if each.path == leaf.path]
            if unseen:
                assert (outcome.score, recorded) == (None, [])
            else:
                assert (outcome.id, outcome.score, outcome.costs) == (real.id, real.score, real.costs)
                assert (recorded, leaf.answer) == ([leaf], answer)

    check()
    assert seen[False] > 3
    assert seen[True] > 0


@pytest.mark.parametrize("name", GATED)
def test_samples_of_a_probability_are_replayed_too(oracle, name):
    """P(yes) by samples: five calls with seeds, which a record keeps apart."""
    record, runner = oracle.recorded(name)
    question, memory = oracle.example(7), Memory()
    with oracle.connection(adapter=JsonForm(probability_mode="samples")):
        leaf = runner.run(question, {}, memory)
        real, answer = oracle.really(oracle.built(name), question, {}, "luck")
    record.add(question.id, question.question, leaf)
    (outcome,) = replay(record, {}, metric="luck")
    assert (outcome.score, outcome.costs, leaf.answer) == (real.score, real.costs, answer)


def test_the_order_of_questions_is_that_asked_for(oracle):
    record, _ = explored(oracle, "cov_rag", questions=3, most=1)
    assert [each.id for each in replay(record, {}, metric="fog", ids=["q2", "q0", "other", "q2"])] == [
        "q2",
        "q0",
        "other",
        "q2",
    ]
    assert isinstance(replay(record, {}, metric="fog", ids=["other"])[0], Unseen)


def test_a_setting_or_metric_that_cannot_be_replayed_is_refused(oracle):
    record, _ = explored(oracle, "cov_rag", questions=1, most=1)
    with pytest.raises(UserError, match="no scores of em: choose from luck, fog"):
        replay(record, {}, metric="em")
    with pytest.raises(UserError, match="Unknown knob of CoVRAG 'threshold'"):
        replay(record, {"threshold": 0.5}, metric="fog")
    with pytest.raises(UserError, match="bias_above must be a number from 0 to 1, got 2"):
        replay(record, {"bias_above": 2}, metric="fog")


def test_a_knob_that_no_gate_reads_selects_a_root_of_its_own(oracle):
    record, runner = explored(oracle, "cov_rag", questions=1, most=8)
    assert isinstance(replay(record, {"k": 2}, metric="luck")[0], Unseen)
    question = oracle.example(0)
    with oracle.connection():
        record.add(question.id, question.question, runner.run(question, {"k": 2}, Memory()), gold_sha256(question))
        real, _ = oracle.really(oracle.built("cov_rag"), question, {"k": 2}, "luck")
    assert replay(record, {"k": 2}, metric="luck")[0].costs == real.costs
    assert isinstance(replay(record, {"k": 4}, metric="luck")[0], Unseen)
    assert replay(record, {"k": 3}, metric="luck") == replay(record, {}, metric="luck")


def test_costs_are_those_of_a_run_that_finds_nothing_cached(oracle):
    _, runner = oracle.recorded("cov_rag")
    question, cached = oracle.example(1), {"cache": True}
    with oracle.connection(**cached):
        oracle.really(oracle.built("cov_rag"), question, {}, "luck")
        leaf = runner.run(question, {}, Memory())
    with oracle.connection():
        real, _ = oracle.really(oracle.built("cov_rag"), question, {}, "luck")
    assert leaf.costs == {name: count for name, count in real.costs.items() if count}
