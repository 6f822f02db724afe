"""A study from start to artifact: what it writes, how it goes on, and what it refuses."""

import contextlib
import json
import sqlite3

import pytest

from corpora.questions import Question, select
from experiments.pipeline.tuning.candidates import Candidates
from experiments.pipeline.tuning.config import TuneConfig
from experiments.pipeline.tuning.tune import split_questions
from optimizers.metrics.catalog import get_metric
from optimizers.tuning.objective import Goal
from optimizers.tuning.storages import DatabaseWithHeartbeat
from programs.artifact import load, read_artifact
from programs.lms.calls.budget import Budget
from signatures.common.errors import UserError
from tests.conftest import ListRetriever, ScriptedEngine
from tests.experiments.pipeline.tuning.conftest import QUESTIONS


def numbers(found):
    return [trial.number for trial in found.findings.trials if trial.complete]


@pytest.mark.slow
def test_the_best_setting_is_frozen_and_the_folder_holds_all_trials_and_plots(tune, plots, tmp_path, passages):
    found = tune(trials=10)
    best = found.findings.best
    assert best.setting["k"] >= 7
    assert found.findings.baseline.setting == {"k": 3, "reader": "direct"}
    assert found.findings.surely_better
    assert "is better than the program as it was, on held-out questions" in found.findings.verdict
    program = load(tmp_path / "s" / "artifact", ListRetriever(passages))
    assert program.k == best.setting["k"]
    artifact = read_artifact(tmp_path / "s" / "artifact")
    assert artifact.optimizer["name"] == "tune"
    assert artifact.optimizer["trial"] == best.number
    assert artifact.metric["mean"] == best.score() == 1.0
    assert len(artifact.metric["scores"]) == 24
    assert artifact.optimizer["held_out_score"]["mean"] > 0.9
    assert artifact.optimizer["budget"] is None
    record = json.loads((tmp_path / "s" / "study.json").read_text())
    assert record["trials"][0]["baseline"]
    assert record["trials"][0]["setting"] == {"k": 3, "reader": "direct"}
    assert sorted(record["questions"]) == sorted(f"q{n}" for n in range(24))
    assert sum(record["counts"].values()) == len(record["trials"]) == 10
    assert record["spent"]["calls"] > 0
    assert [path.name for path in found.plots] == ["slices.png", "importance.png"]
    for path in found.plots:
        assert path.read_bytes().startswith(b"\x89PNG")
        assert "<svg" in path.with_suffix(".svg").read_text()


@pytest.mark.slow
def test_a_study_goes_on_where_it_stopped(tune, engine):
    first = tune(trials=4)
    asked = len(engine.requests)
    again = tune(trials=4, resume=True)
    assert len(engine.requests) == asked
    assert again.record["trials"] == first.record["trials"]
    more = tune(trials=6, resume=True)
    assert len(numbers(more)) + more.record["counts"].get("pruned", 0) == 6
    assert more.record["trials"][:4] == first.record["trials"]


@pytest.mark.slow
def test_a_budget_ends_the_study_with_the_best_so_far(tune, tmp_path):
    found = tune(trials=10, budget=Budget(calls=40))
    assert "budget of 40 calls is used up" in found.stopped
    assert found.record["spent"]["calls"] <= 40
    assert found.findings.baseline is not None
    assert (tmp_path / "s" / "artifact" / "artifact.json").exists()
    again = tune(trials=10, budget=Budget(calls=40), resume=True)
    assert again.record["spent"]["calls"] <= 40
    whole = tune(trials=10, budget=Budget(calls=1000), resume=True)
    assert whole.stopped is None
    assert whole.record["counts"]["complete"] + whole.record["counts"].get("pruned", 0) == 10


def test_without_a_complete_trial_nothing_is_frozen(tune, tmp_path):
    found = tune(budget=Budget(calls=3))
    assert found.chosen is None
    assert found.findings.verdict == "No trial is complete."
    assert not (tmp_path / "s" / "artifact").exists()


@pytest.mark.slow
def test_ctrl_c_keeps_the_trials_and_writes_the_results(tune, link, tmp_path):
    def reply(system, user):
        if len(engine.requests) > 30:
            raise KeyboardInterrupt
        return "[[ ## answer ## ]]\nright\n\n[[ ## completed ## ]]"

    engine = ScriptedEngine(reply)
    with pytest.raises(KeyboardInterrupt):
        tune(connection=link(engine), threads=1)
    record = json.loads((tmp_path / "s" / "study.json").read_text())
    assert record["counts"] == {"complete": 1, "fail": 1, "waiting": 1}
    assert record["stopped"] == "interrupted by Ctrl-C"
    found = tune(connection=link(ScriptedEngine(engine.reply)), threads=1, resume=True, trials=1)
    assert found.record["counts"]["complete"] == 1


@pytest.mark.slow
def test_a_study_of_other_settings_is_refused(tune):
    tune(trials=2)
    for changed, said in (
        ({"seed": 1}, "another questions.sha256"),
        ({"sampler": "random"}, r"another sampler \('tpe', now 'random'\)"),
        ({"goal": Goal(at_most={"calls": 2})}, "another at_most"),
        ({"narrowed": {"k": "1:9"}}, r"another knobs.k \('1:20', now '1:9'\)"),
        ({"prune": True}, "another prune"),
    ):
        with pytest.raises(UserError, match=said):
            tune(resume=True, **changed)
    assert tune(trials=2, **changed, overwrite=True).record["counts"]


def test_what_is_there_is_not_overwritten_unasked(tune):
    tune(trials=1)
    with pytest.raises(UserError, match="already contains a study"):
        tune(trials=1)


@pytest.mark.slow
def test_a_front_is_drawn_and_any_of_its_trials_can_be_frozen(tune, plots, tmp_path):
    found = tune(trials=8, goal=Goal("tokens"), sampler="random")
    front = found.record["front"]
    assert len(front) >= 1
    assert "front.png" in [path.name for path in found.plots]
    cheapest = tune(trials=8, goal=Goal("tokens"), sampler="random", resume=True, chosen=front[0])
    assert read_artifact(tmp_path / "s" / "artifact").optimizer["trial"] == front[0] == cheapest.chosen.number
    with pytest.raises(UserError, match="The study of 8 trials has no trial 99"):
        tune(trials=8, goal=Goal("tokens"), sampler="random", resume=True, chosen=99)


def test_a_question_with_two_ids_makes_candidates_or_is_asked():
    again = [Question(id=f"r{n}", question=f"question {n}", answers=["right"]) for n in range(24)]
    demos = TuneConfig(metric=get_metric("em"), candidates=Candidates(optimizers=("labeled",)))
    train, asked = split_questions([], [*QUESTIONS, *again], demos)
    assert len(train) + len(asked) == 48
    assert not {each.id[1:] for each in train} & {each.id[1:] for each in asked}
    once = [each.id for each in select(QUESTIONS, seed=0)]  # without such questions the parts are as ever
    assert [[each.id for each in part] for part in split_questions([], QUESTIONS, demos)] == [once[:8], once[8:]]


def test_test_questions_are_refused(tune, engine):
    held = [*[Question(id=f"q{n}", question=f"Question {n}?") for n in range(3)]]
    held.append(Question(id="secret", question="A secret?", split="test"))
    with pytest.raises(UserError, match="'secret' is of the split test"):
        tune(questions=held)
    with pytest.raises(UserError, match="'secret' is of the split test"):
        tune(trainset=held)
    assert engine.requests == []


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"trainset": [Question(id="other", question="question 3 ")]}, "in the training set and in the validation set"),
        ({"searched": ()}, "nothing to search"),
        ({"metric": get_metric("uncited")}, "Lower is better in"),
        ({"seed": -1}, "A seed must be at least 0, got -1"),
    ],
)
def test_a_study_that_cannot_be_is_refused(asked, said, tune):
    with pytest.raises(UserError, match=said):
        tune(**asked)


@pytest.mark.slow
def test_a_trial_that_cannot_be_is_not_frozen_and_nothing_is_asked(tune, engine, tmp_path):
    with pytest.raises(UserError, match="The study of 2 trials has no trial 77: choose a lower number"):
        tune(trials=2, chosen=77)
    assert engine.requests == []
    assert not (tmp_path / "s").exists()
    tune(trials=2)
    asked = len(engine.requests)
    with pytest.raises(UserError, match="The study of 3 trials has no trial 3"):
        tune(trials=3, chosen=3, resume=True)
    assert len(engine.requests) == asked
    assert tune(trials=3, chosen=2, resume=True).chosen.number == 2


DAMAGE = (
    "UPDATE trial_values SET value = 'high'",
    "UPDATE trials SET number = 7 WHERE number = 1",
    "UPDATE trials SET state = 'DONE' WHERE number = 1",
    "UPDATE trials SET datetime_complete = 'yesterday'",
    "UPDATE trial_params SET distribution_json = '[]'",
    "UPDATE trial_params SET param_name = 'j' WHERE param_id = 1",
    "UPDATE trial_params SET param_value = 2000 WHERE param_id = 1",
    "UPDATE trial_user_attributes SET value_json = '[0.5]' WHERE key = 'scores'",
    "UPDATE trial_user_attributes SET value_json = '{\"calls\": \"x\"}' WHERE key = 'costs'",
    "UPDATE trial_system_attributes SET value_json = '3'",
    "UPDATE study_user_attributes SET value_json = '3' WHERE key = 'request'",
    "UPDATE study_user_attributes SET value_json = '[[]]' WHERE key = 'questions'",
    "UPDATE study_user_attributes SET value_json = '{\"queued\": 1}' WHERE key = 'prepared'",
    "UPDATE study_user_attributes SET value_json = '{' WHERE key = 'ready'",
    "UPDATE study_directions SET direction = 'MINIMIZE'",
    "CREATE TABLE t AS SELECT * FROM trials; DROP TABLE trials; ALTER TABLE t RENAME TO trials",
    "DELETE FROM trial_values WHERE trial_value_id = 1",
)


@pytest.mark.slow
def test_a_damaged_study_is_one_line(tune, tmp_path):
    tune(trials=2)
    path = tmp_path / "s" / "study.db"
    whole = path.read_bytes()
    for change in DAMAGE:
        path.unlink()  # what was refused may still hold a lock on it
        path.write_bytes(whole)
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.executescript(change)
        with pytest.raises(UserError) as caught:
            tune(trials=3, resume=True)
        assert len(str(caught.value).splitlines()) == 1, change
    assert tune(trials=2, overwrite=True).record["counts"]["complete"] == 2


@pytest.mark.parametrize("line", ['{"op_code": 4, "worker_id": 3}', '{"op_code": 99}', "[]", "\u00e4"])
def test_a_damaged_journal_is_one_line(line, tune, tmp_path):
    storage = f"journal:{tmp_path / 'j.log'}"
    tune(trials=2, storage=storage)
    with open(tmp_path / "j.log", "a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    with pytest.raises(UserError, match="j.log|cannot be read") as caught:
        tune(trials=3, storage=storage)
    assert len(str(caught.value).splitlines()) == 1


def test_a_folder_or_a_loop_of_links_in_the_place_of_a_study_is_one_line(tune, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for place in ("folder", "loop"):
        for kind in ("journal:", ""):
            with pytest.raises(UserError, match=place):
                tune(trials=1, storage=f"{kind}{tmp_path / place}")


def test_a_disk_that_gets_full_ends_a_study_in_one_line_and_it_can_be_resumed(tune, monkeypatch):
    def full(*arguments, **keywords):
        try:
            raise sqlite3.OperationalError("database or disk is full")
        except sqlite3.OperationalError:
            raise AssertionError("Should not reach.")  # noqa: B904 - as Optuna does

    with monkeypatch.context() as patched:
        patched.setattr(DatabaseWithHeartbeat, "set_trial_state_values", full)
        with pytest.raises(UserError, match=r"cannot be written \(database or disk is full\): free some space"):
            tune(trials=2)
    assert tune(trials=2, resume=True).record["counts"]["complete"] == 2
