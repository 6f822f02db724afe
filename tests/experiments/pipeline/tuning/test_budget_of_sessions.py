"""A budget is one of the whole study, also if Ctrl-C ends its sessions."""

import json

import pytest

from corpora.questions import Question
from experiments.pipeline.tuning.config import Candidates
from programs.lms.calls.budget import Budget
from tests.conftest import ScriptedEngine

TRAIN = [Question(id=f"t{n}", question=f"Question {n}?", answers=["right"]) for n in range(100, 130)]


@pytest.fixture
def interrupted(reads, link, tune):
    """Return a function that runs sessions which Ctrl-C ends, and then one to the end."""

    def run(*, sessions, after, calls, **options):
        def reply(system, user):
            if len(engine.requests) == stop[0]:
                raise KeyboardInterrupt
            return reads(system, user)

        stop = [0]
        engine = ScriptedEngine(reply)
        for number in range(sessions):
            stop[0] = len(engine.requests) + after
            with pytest.raises(KeyboardInterrupt):
                tune(connection=link(engine, Budget(calls=calls)), threads=1, resume=number > 0, **options)
        stop[0] = 0
        found = tune(connection=link(engine, Budget(calls=calls)), threads=1, resume=True, **options)
        return found, len(engine.requests)

    return run


def test_trials_that_are_cut_off_are_paid_for(interrupted):
    found, sent = interrupted(sessions=2, after=20, calls=70, trials=10)
    assert sent <= 70
    assert found.record["spent"]["calls"] == sent
    assert "is used up" in found.stopped


def test_the_results_that_ctrl_c_leaves_name_what_was_sent(tune, reads, link, tmp_path):
    def reply(system, user):
        if len(engine.requests) == 10:
            raise KeyboardInterrupt
        return reads(system, user)

    engine = ScriptedEngine(reply)
    with pytest.raises(KeyboardInterrupt):
        tune(connection=link(engine, Budget(calls=70)), threads=1)
    assert json.loads((tmp_path / "s" / "study.json").read_text())["spent"]["calls"] == len(engine.requests)


def test_preparing_that_is_cut_off_is_paid_for(interrupted):
    candidates = Candidates(optimizers=("random_search",), seeds=1)
    found, sent = interrupted(
        sessions=2, after=12, calls=60, trials=2, searched=(), candidates=candidates, trainset=TRAIN
    )
    assert sent <= 60
    assert found.record["spent"]["calls"] == sent
