"""Four processes work on one study, and one of them is killed in the middle of a trial."""

import json
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from corpora.questions import Question
from tests.conftest import ScriptedEngine

pytestmark = pytest.mark.slow

TRIALS, WORKERS, QUESTIONS = 6, 4, 12
MOST_SECONDS = 120  # before the test gives up; it takes a few


def wait_until(path: Path) -> None:
    end = time.monotonic() + MOST_SECONDS
    while not path.exists():
        assert time.monotonic() < end, f"{path.name} never came"
        time.sleep(0.02)  # the processes of the test cannot share an event with one that is killed


def work(number: int, folder: Path, storage: str, questions: list[Question], tune, link, reads) -> None:
    """Run one worker; number 0 stops in the middle of its first trial, and the others start when it is dead."""
    sys.stdout = sys.stderr = open(folder / f"log-{number}.txt", "w", buffering=1)  # noqa: SIM115 - of the process
    os.dup2(sys.stderr.fileno(), 2)

    def reply(system: str, user: str) -> str:
        if number > 0:
            wait_until(folder / "go")
        elif len(engine.requests) > 5:
            (folder / "in-the-middle").touch()
            signal.pause()
        return reads(system, user)

    engine = ScriptedEngine(reply)
    found = tune(
        connection=link(engine),
        out=folder / f"worker-{min(number, 2)}",  # the last two write into one folder
        storage=storage,
        study="shared",
        questions=questions,
        trials=TRIALS,
        threads=1,
        heartbeat=1,
        grace=6,  # a machine that is busy may keep a living process waiting
        progress=True,
    )
    (folder / f"calls-{number}").write_text(str(len(engine.requests)))
    assert found.stopped is None


@pytest.mark.parametrize("kind", ["postgresql", "journal"])
def test_the_trial_of_a_killed_worker_is_redone_and_the_count_is_right(kind, request, tmp_path, tune, link, reads):
    if kind == "postgresql":
        storage = request.getfixturevalue("postgres").url
    else:
        storage = f"journal:{tmp_path / 'study.journal'}"
    questions = [Question(id=f"q{n}", question=f"Question {n}?", answers=["right"]) for n in range(QUESTIONS)]
    forked = multiprocessing.get_context("fork")
    workers = [
        forked.Process(target=work, args=(number, tmp_path, storage, questions, tune, link, reads))
        for number in range(WORKERS)
    ]
    workers[0].start()
    wait_until(tmp_path / "in-the-middle")
    for worker in workers[1:]:
        worker.start()
    os.kill(workers[0].pid, signal.SIGKILL)
    (tmp_path / "go").touch()
    for worker in workers:
        worker.join(MOST_SECONDS)
    logs = {path.name: path.read_text() for path in tmp_path.glob("log-*.txt")}
    assert [worker.exitcode for worker in workers] == [-signal.SIGKILL, 0, 0, 0], logs

    records = [json.loads((tmp_path / f"worker-{number}" / "study.json").read_text()) for number in (1, 2)]
    complete = [[trial for trial in record["trials"] if trial["state"] == "complete"] for record in records]
    assert complete[0] == complete[1]
    assert [len(each) for each in complete] == [record["counts"]["complete"] for record in records] == [TRIALS] * 2
    trials = records[0]["trials"]
    # A surplus one may still run in another process when the first writes its record.
    surplus = [trial for trial in trials if trial["state"] in ("fail", "running") and trial["number"] != 0]
    # A trial that was taken for dead on a busy machine is queued again, and may not be needed any more.
    waiting = [trial for trial in trials if trial["state"] == "waiting"]
    assert len(waiting) <= len(surplus)
    assert len(trials) == TRIALS + 1 + len(surplus) + len(waiting)
    killed = trials[0]
    redone = [trial for trial in trials if trial["redo_of"] == 0 and trial not in surplus]
    assert killed["state"] == "fail"
    assert [trial["state"] for trial in redone] == ["complete"]
    assert redone[0]["baseline"]
    assert redone[0]["setting"] == killed["setting"]
    assert records[0]["baseline"] == redone[0]["number"]
    assert all(len(trial["scores"]) == QUESTIONS for trial in trials if trial["state"] == "complete")
    # No trial was asked twice, except for the one that was cut off, and any that was taken for dead.
    calls = [int((tmp_path / f"calls-{number}").read_text()) for number in (1, 2, 3)]
    assert sum(calls) >= QUESTIONS * TRIALS
    assert surplus or sum(calls) == QUESTIONS * TRIALS
    if kind == "postgresql":
        from tests.experiments import postgres

        for path in tmp_path.rglob("*"):
            if path.is_file():
                assert postgres.PASSWORD.encode() not in path.read_bytes(), path


def test_a_joining_process_must_agree_on_the_settings(tune, tmp_path):
    from signatures.common.errors import UserError

    storage = f"journal:{tmp_path / 'study.journal'}"
    tune(trials=1, storage=storage, study="a")
    assert tune(trials=2, storage=storage, study="a").record["counts"] == {"complete": 2}
    with pytest.raises(UserError, match=r"The study 'a' was started with another sampler"):
        tune(trials=2, storage=storage, study="a", sampler="random")
    assert tune(trials=1, storage=storage, study="b", sampler="random").record["counts"] == {"complete": 1}


def test_a_password_is_not_in_the_message_of_a_server_that_is_not_there(tune):
    from signatures.common.errors import UserError

    pytest.importorskip("psycopg")
    with pytest.raises(UserError, match=r"postgresql://me@127.0.0.1:9/db cannot be opened") as raised:
        tune(storage="postgresql://me:hunter22@127.0.0.1:9/db")
    assert "hunter22" not in str(raised.value)
