"""Work in processes: results in order, errors of the user returned, a crash costs one task."""

import logging
import multiprocessing
import os
import subprocess
import sys
import time
import warnings
from multiprocessing.connection import wait
from pathlib import Path
from types import SimpleNamespace

import pytest

from corpora.ingest.ingest import _Worker, run_in_processes
from signatures.common.errors import UserError

ROOT = Path(__file__).parents[3]


def work(task: int) -> int:
    """Crash at 13, fail at 6, refuse 5, fill the memory at 99, warn at 88; return the square of any other number."""
    if task == 13:
        os._exit(1)
    if task == 77:
        while True:
            pass
    if task == 99:
        return sum(len(part) for part in [bytes(1 << 20) for _ in range(1 << 14)])
    if task == 88:
        warnings.warn("a warning", stacklevel=1)
        logging.getLogger("a library").error("a line")
    if task == 6:
        raise KeyError("a line\nand another")
    if task == 5:
        raise UserError("five is refused")
    time.sleep(0.02 if task % 7 == 0 else 0)  # later tasks finish first
    return task * task


@pytest.mark.slow
def test_results_come_in_order_and_a_crash_costs_one_task():
    tasks = [*range(12), 13, *range(14, 22)]
    found = list(run_in_processes(work, tasks, 2))
    assert [result for result in found if isinstance(result, int)] == [n * n for n in tasks if n not in (5, 6, 13)]
    assert str(found[6]) == "it cannot be read (KeyError: 'a line\\nand another')"
    assert str(found[5]) == "five is refused"
    assert "its reader crashed" in str(found[12])


@pytest.mark.slow
def test_a_task_that_takes_too_long_costs_itself_only(monkeypatch):
    clock = [0.0]

    def wait_for_others(pipes, timeout):
        if len(pipes) > 1:
            return wait(pipes)
        clock[0] += timeout  # the task that is left never ends
        return []

    monkeypatch.setattr("corpora.ingest.ingest.time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr("corpora.ingest.ingest.wait", wait_for_others)
    found = list(run_in_processes(work, [1, 77, 3], 2, seconds=6.0))
    assert (found[0], found[2]) == (1, 9)
    assert "took more than 6 seconds" in str(found[1])


def test_an_iteration_that_ends_early_ends_its_processes():
    iterator = run_in_processes(work, [1, 77, 77], 3)
    assert next(iterator) == 1
    iterator.close()
    assert not multiprocessing.active_children()


def test_a_process_that_ends_before_it_has_a_task_is_an_error(monkeypatch):
    """Before, the command line ended with exit code 1 and without a word."""
    ours, theirs = multiprocessing.Pipe()
    theirs.close()
    process = SimpleNamespace(exitcode=255, join=lambda: None, kill=lambda: None)
    monkeypatch.setattr("corpora.ingest.ingest._free", lambda *_: _Worker(process, ours))
    with pytest.raises(UserError, match="exit code 255"):
        list(run_in_processes(work, [1], 1))


def test_what_libraries_say_of_a_file_is_not_shown(capfd):
    assert list(run_in_processes(work, [88], 1)) == [88 * 88]
    assert capfd.readouterr() == ("", "")


def test_no_task_needs_no_process():
    assert list(run_in_processes(work, [], 2)) == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the memory of a process")
def test_a_task_that_takes_too_much_memory_costs_itself_only():
    found = list(run_in_processes(work, [1, 99, 3, 99, 4], 1, memory=300))
    assert (found[0], found[2], found[4]) == (1, 9, 16)
    assert "more memory than 300 MiB" in str(found[1])
    assert "--memory" in str(found[3])


def test_a_script_that_ingests_needs_no_guard(tmp_path):
    """Processes that start anew would import the script, which would ingest again."""
    (tmp_path / "a.md").write_text("# Quill\n\nQuill is a town.\n")
    script = tmp_path / "script.py"
    script.write_text(
        "from corpora.ingest.ingest import ingest\nprint(ingest(['a.md'], 'p.jsonl', processes=2).errors)\n"
    )
    run = [sys.executable, str(script)]
    done = subprocess.run(
        run, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
