"""Where studies are kept: which places are understood, and how killed processes are noticed."""

import os
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from optimizers.tuning.storages import database_url, fail_stale, open_storage, queue_again, without_password
from signatures.common.errors import UserError

LONG_AGO = 1_000_000_000


@pytest.mark.parametrize(
    ("place", "url"),
    [
        ("postgresql://me@host/db", "postgresql+psycopg://me@host/db"),
        ("postgres://me:pw@host:5433/db?sslmode=require", "postgresql+psycopg://me:pw@host:5433/db?sslmode=require"),
        ("sqlite:////tmp/a.db", "sqlite:////tmp/a.db"),
        ("/tmp/study.db", "sqlite:////tmp/study.db"),
    ],
)
def test_places_become_urls(place, url):
    assert database_url(place) == url


def test_a_file_that_cannot_be_opened_is_told_with_the_cure_for_files(tmp_path):
    for place in (str(tmp_path), f"sqlite:///{tmp_path}"):  # a folder
        with pytest.raises(UserError, match="unable to open database file. Free some space, or choose another folder"):
            open_storage(place)


def test_passwords_are_left_out_of_what_is_shown():
    assert without_password("postgresql://me:p@ss:w@host/db") == "postgresql://me@host/db"
    assert (
        without_password("postgresql://host/db?user=me&password=pw&x=1")
        == "postgresql://host/db?user=me&password=...&x=1"
    )
    assert without_password("postgresql://me@host/db") == "postgresql://me@host/db"
    assert without_password("journal:/a/b") == "journal:/a/b"
    with pytest.raises(UserError, match="not in 'mysql://me@host/db'"):
        database_url("mysql://me:pw@host/db")


@pytest.mark.parametrize("kind", ["journal", "sqlite"])
def test_what_is_no_study_is_one_line(kind, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text('{"a": 1}\n' if kind == "journal" else "not a database, but long enough to look at" * 9)
    with pytest.raises(UserError, match="notes.txt"):
        open_storage(f"journal:{path}" if kind == "journal" else str(path))


def studies(tmp_path: Path, grace: int = 5):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = open_storage(f"journal:{tmp_path / 'j'}", heartbeat=1, grace=grace)
    return storage, optuna.create_study(storage=storage, study_name="s", direction="maximize")


@pytest.mark.filterwarnings("ignore:Heartbeat of storage")
def test_a_journal_notices_a_trial_without_signs_of_life_and_queues_it_again(tmp_path):
    storage, study = studies(tmp_path)
    study.enqueue_trial({"x": 0.25})
    dead, alive = study.ask(), study.ask()
    dead.suggest_float("x", 0, 1)
    dead.set_user_attr("spent", {"calls": 9})
    for trial in (dead, alive):
        storage.record_heartbeat(trial._trial_id)
    fail_stale(study)
    assert [trial.state for trial in study.trials] == [TrialState.RUNNING] * 2
    os.utime(tmp_path / "j.alive" / str(dead._trial_id), (LONG_AGO, LONG_AGO))
    fail_stale(study)
    assert [trial.state for trial in study.trials] == [TrialState.FAIL, TrialState.RUNNING, TrialState.WAITING]
    again = study.ask()
    assert again.suggest_float("x", 0, 1) == 0.25
    assert "spent" not in again.user_attrs  # it counts once, at the trial that spent it
    assert [path.name for path in (tmp_path / "j.alive").iterdir() if path.name.startswith("now")] == []


@pytest.mark.filterwarnings("ignore:Heartbeat of storage")
@pytest.mark.parametrize("kind", ["journal", "sqlite"])
def test_a_process_killed_before_its_first_sign_of_life_is_noticed_too(kind, tmp_path, monkeypatch):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    place = f"journal:{tmp_path / 'j'}" if kind == "journal" else str(tmp_path / "s.db")
    study = optuna.create_study(storage=open_storage(place, heartbeat=1, grace=5), direction="maximize")
    now = [0.0]
    monkeypatch.setattr("optimizers.tuning.storages.time.monotonic", lambda: now[0])
    study.ask()
    fail_stale(study)
    now[0] = 4.0
    fail_stale(study)
    assert [trial.state for trial in study.trials] == [TrialState.RUNNING]
    now[0] = 6.0
    fail_stale(study)
    assert [trial.state for trial in study.trials] == [TrialState.FAIL, TrialState.WAITING]


def test_a_quick_journal_keeps_its_trials_and_opens_as_any_journal(tmp_path):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(storage=open_storage(f"quick:{tmp_path / 'q' / 'j'}"), study_name="s")
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
    for kind in ("quick", "journal"):
        again = optuna.load_study(storage=open_storage(f"{kind}:{tmp_path / 'q' / 'j'}"), study_name="s")
        assert [trial.params for trial in again.trials] == [trial.params for trial in study.trials]


@pytest.mark.parametrize("kind", ["quick", "journal"])
def test_a_half_written_last_line_is_cut_off(kind, tmp_path):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    place, path = f"{kind}:{tmp_path / 'j'}", tmp_path / "j"
    study = optuna.create_study(storage=open_storage(place), study_name="s")
    study.add_trial(optuna.create_trial(value=0.5))
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines()[-1][:30])
    again = optuna.load_study(storage=open_storage(place), study_name="s")
    assert [trial.value for trial in again.trials] == [0.5]
    again.add_trial(optuna.create_trial(value=0.25))
    third = optuna.load_study(storage=open_storage(place), study_name="s")
    assert [trial.value for trial in third.trials] == [0.5, 0.25]


def test_a_process_that_dies_while_others_work_does_not_damage_their_journal(tmp_path):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    place, path = f"journal:{tmp_path / 'j'}", tmp_path / "j"
    study = optuna.create_study(storage=open_storage(place), study_name="s")
    path.write_bytes(path.read_bytes() + b'{"op_code":4,"worker')
    study.add_trial(optuna.create_trial(value=0.5))
    again = optuna.load_study(storage=open_storage(place), study_name="s")
    assert [trial.value for trial in again.trials] == [0.5]


def test_a_file_that_is_no_journal_keeps_its_last_line(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("one\ntwo")
    for kind in ("quick", "journal"):
        with pytest.raises(UserError, match="is not the journal of a study"):
            open_storage(f"{kind}:{path}")
    assert path.read_text() == "one\ntwo"


def test_a_trial_that_two_processes_declare_failed_is_queued_once(tmp_path):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study()
    dead = study.ask()
    study.tell(dead, state=TrialState.FAIL)
    failed = study.trials[0]
    for _ in range(2):
        queue_again(study, failed)
    assert [trial.state for trial in study.trials] == [TrialState.FAIL, TrialState.WAITING, TrialState.FAIL]
