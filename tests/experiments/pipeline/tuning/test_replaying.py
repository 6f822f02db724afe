"""A study whose trials are evaluated from the record of a run."""

import re
import shutil

import pytest

from experiments.pipeline.evaluate import evaluate
from experiments.pipeline.tuning.config import Candidates
from experiments.runs.config import RunConfig
from optimizers.metrics.catalog import get_metric
from optimizers.replay.replaying import Runner
from optimizers.tuning.objective import Goal
from programs.catalog import build
from programs.lms.calls.budget import Budget
from programs.parts.knobs import with_knobs
from signatures.common.errors import UserError


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"candidates": Candidates(instructions=1)}, "one set of prompts"),
        ({"goal": Goal("seconds")}, "Seconds cannot be replayed"),
        ({"goal": Goal(at_most={"seconds": 1})}, "Seconds cannot be replayed"),
    ],
)
def test_what_a_record_cannot_say_is_refused(options, said, tune, tmp_path):
    with pytest.raises(UserError, match=said):
        tune(replay=tmp_path / "run", **options)


def test_only_a_replay_buys(tune):
    with pytest.raises(UserError, match="Only a replay buys"):
        tune(buy=True)


def test_a_program_without_gates_cannot_be_replayed(tune, tmp_path):
    with pytest.raises(UserError, match="nothing to search|no gates"):
        tune(replay=tmp_path / "run")
    with pytest.raises(UserError, match="Knob k decides more than gates do"):
        tune(replay=tmp_path / "run", searched=("k",))


@pytest.fixture(scope="module")
def recorded(small_world, tmp_path_factory):
    """Record both sides of CoV-RAG's gates on a small simulated world; return folder, program, questions, connect."""
    from corpora.index.open import open_index
    from corpora.questions import read_questions
    from experiments.world.connect import connect_any

    folder, run = small_world(20), tmp_path_factory.mktemp("recorded") / "run"
    questions = [each for each in read_questions(folder / "questions.jsonl") if each.split != "test"][:10]
    program = build("cov_rag", open_index(folder / "index"), gate="threshold")

    def connect(**settings):
        return connect_any("simulated", cache=False, **settings)

    config = RunConfig(metrics=["f1[hotpot]"], threads=2, branches=1)
    evaluate(program, questions, config, connection=connect(), folder=run, progress=False)
    return run, program, questions, connect


@pytest.mark.slow
def test_a_replay_searches_the_knobs_of_gates_and_scores_as_the_program_does(recorded, tune, tmp_path):
    run, program, questions, connect = recorded
    run = shutil.copytree(run, tmp_path / "run")
    poor = {"student": program, "questions": questions, "metric": get_metric("f1[hotpot]"), "folds": 2, "threads": 4}
    replayed = tune(**poor, connection=connect(), replay=run, trials=12, sampler="random", out=tmp_path / "a")
    assert set(replayed.present) == {
        "gate", "combine", "reference_below", "correctness_below", "bias_above", "truthfulness_below", "max_revisions"
    }  # fmt: skip
    assert replayed.record["spent"].get("calls", 0) == 0
    unseen = [trial for trial in replayed.findings.trials if trial.unseen]
    assert unseen, "the run has only its own branches"
    assert all(trial.state == "pruned" for trial in unseen)
    assert replayed.findings.baseline.complete

    bought = tune(
        **poor, connection=connect(), replay=run, buy=True, trials=12, sampler="random", out=tmp_path / "b",
        searched=("gate", "max_revisions", "combine"),
    )  # fmt: skip
    assert bought.record["counts"] == {"complete": 12}
    assert bought.record["spent"]["calls"] > 0
    live = tune(
        **poor, connection=connect(), trials=12, sampler="random", out=tmp_path / "c",
        searched=("gate", "max_revisions", "combine"),
    )  # fmt: skip
    for ours, real in zip(bought.findings.trials, live.findings.trials, strict=True):
        assert (ours.setting, ours.scores, ours.costs["calls"]) == (real.setting, real.scores, real.costs["calls"])
    assert live.record["spent"]["calls"] > bought.record["spent"]["calls"]


def test_a_knob_of_the_program_that_no_gate_reads_must_be_the_recorded_one(recorded, tune, tmp_path):
    run, program, questions, connect = recorded
    given = {"questions": questions, "metric": get_metric("f1[hotpot]"), "folds": 0, "trials": 2}
    with pytest.raises(UserError, match=r"Nothing was recorded with k=7 \(it was 5\)"):
        tune(**given, student=with_knobs(program, k=7), connection=connect(), replay=run)
    copy = shutil.copytree(run, tmp_path / "run")
    searched = {"searched": ("max_revisions",), "out": tmp_path / "b"}
    found = tune(**given, student=with_knobs(program, k=7), connection=connect(), replay=copy, buy=True, **searched)
    assert found.findings.baseline.complete


@pytest.fixture
def sent(monkeypatch):
    """Count the calls that reach the simulated LM."""
    from experiments.world.simulated import SimulatedEngine

    calls, complete = [], SimulatedEngine.complete

    def counted(engine, request):
        calls.append(request)
        return complete(engine, request)

    monkeypatch.setattr(SimulatedEngine, "complete", counted)
    return calls


@pytest.fixture
def bought(recorded, tune, tmp_path):
    """Return a function that buys for a study of a copy of the record."""
    run, program, questions, connect = recorded
    shutil.copytree(run, tmp_path / "run")

    def study(**options):
        connection = connect(budget=options.pop("budget", None))
        given = {"student": program, "questions": questions, "metric": get_metric("f1[hotpot]"), "folds": 2}
        searched = ("gate", "max_revisions", "combine")
        return tune(
            **{**given, "searched": searched, "threads": 4, "sampler": "random", **options},
            connection=connection, replay=tmp_path / "run", buy=True,
        )  # fmt: skip

    return study


@pytest.fixture
def failing(monkeypatch, recorded):
    """Let every second question fail after it has paid its calls; return their ids."""
    failing, run = [question.id for question in recorded[2][::2]], Runner.run

    def fails(runner, example, knobs, memory):
        leaf = run(runner, example, knobs, memory)
        if example.id in failing:
            raise ValueError("no leaf")
        return leaf

    monkeypatch.setattr(Runner, "run", fails)
    return failing


def test_what_trials_spend_that_stay_unseen_counts_over_sessions(bought, sent, failing):
    first = bought(trials=6)
    assert [trial.unseen for trial in first.findings.trials if trial.state == "pruned"]
    assert first.record["spent"]["calls"] == len(sent) > 0
    second = bought(trials=9, resume=True)
    assert second.record["spent"]["calls"] == len(sent)
    before = len(sent)
    third = bought(trials=12, resume=True, budget=Budget(calls=before))
    assert (len(sent), "is used up" in (third.stopped or "")) == (before, True)


def test_a_small_budget_buys_leaves_ends_the_study_and_goes_on(bought, sent):
    poor = bought(trials=6, budget=Budget(calls=6))
    assert "is used up" in poor.stopped
    assert poor.record["spent"]["calls"] == len(sent) <= 6
    assert poor.unbought is None
    rich = bought(trials=6, resume=True, budget=Budget(calls=1000))
    assert (rich.stopped, rich.record["counts"]["complete"]) == (None, 6)
    assert rich.record["spent"]["calls"] == len(sent)


def test_questions_that_fail_are_told(bought, failing):
    assert re.match(r"\d questions ended in an error .* ValueError: no leaf", bought(trials=6).unbought)
