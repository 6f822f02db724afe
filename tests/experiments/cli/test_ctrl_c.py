"""Ctrl-C while an LM server hangs: real processes, and a real server that answers some requests and then none."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from experiments.runs.files import read_json, read_rows
from tests.conftest import load_module
from tests.forked import RUN

ROOT = Path(__file__).parents[3]
loopback = load_module(ROOT / "tests" / "loopback.py")
PATIENCE = 120  # seconds, for a machine that is busy; nothing waits that long


class HangingServer(loopback.Loopback):
    """Answers `answers` requests, then keeps all others waiting until it is closed."""

    def __init__(self, answers: int):
        self.answered = 0
        self.left, self.hanging, self.closed, lock = answers, threading.Event(), threading.Event(), threading.Lock()
        outer = self

        class Handler(loopback.JsonHandler):
            def get(self) -> None:
                self.reply(200, {"data": [{"id": "m"}]})

            def post(self) -> None:
                body = self.body()
                with lock:
                    outer.left -= 1
                    hangs = outer.left < 0
                    outer.answered += not hangs and not body.get("logprobs")  # which a probe asks for
                if hangs:
                    outer.hanging.set()
                    outer.closed.wait(PATIENCE)
                    self.close_connection = True
                    return
                choice = {"index": 0, "finish_reason": "stop"}
                choice["message"] = {"role": "assistant", "content": '{"answer": "yes"}'}
                if body.get("logprobs"):
                    choice["message"]["content"] = "Yes"
                    top = [{"token": token, "logprob": -0.7, "bytes": None} for token in ("Yes", "No")]
                    choice["logprobs"] = {"content": [{**top[0], "top_logprobs": top}]}
                self.reply(200, {"model": "m", "choices": [choice]})

        super().__init__(Handler)

    def recover(self) -> None:
        """Answer all requests from now on."""
        self.left = sys.maxsize

    def close(self) -> None:
        self.closed.set()
        super().close()


@pytest.fixture
def hanging_after() -> Iterator[type[HangingServer]]:
    """Return a function that starts a server; it is closed at the end."""
    servers = []

    def start(answers: int) -> HangingServer:
        servers.append(HangingServer(answers))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def interrupted_while(forked) -> Callable[..., str]:
    """Return a function that says what a command prints on standard error when Ctrl-C ends it at a hanging server."""

    def run(server: HangingServer, *arguments: object) -> str:
        process = forked.start(RUN, *arguments, "--lm", "m", "--api-base", server.base)
        if hangs := server.hanging.wait(PATIENCE):
            os.kill(process.pid, signal.SIGINT)
        done = process.wait(PATIENCE / 2)  # the server hangs longer
        assert hangs, done.stderr
        assert done.returncode == 130, done.stderr
        assert "Traceback" not in done.stderr
        assert "rror" not in done.stderr
        return done.stderr

    return run


@pytest.mark.slow
@pytest.mark.parametrize(("program", "answers"), [("rag", 20), ("retro_rag", 300)])
def test_eval_keeps_its_rows(program, answers, hanging_after, interrupted_while, world, tmp_path):
    err = interrupted_while(
        hanging_after(answers), "eval", world / "questions.jsonl", "--program", program, "--index", world / "index",
        "--out", tmp_path / "run", "--threads", 4,
    )  # fmt: skip
    rows = read_rows(tmp_path / "run")
    assert 0 < len(rows) < 60
    assert read_json(tmp_path / "run" / "summary.json")["answered"] == len(rows)
    assert "Stopping: no further LM call is sent, and calls in flight have 1.5 s. Of the " in err
    assert err.strip().endswith("Interrupted. Resume with the same command and --resume.")


@pytest.mark.slow
def test_a_compilation_leaves_what_it_needs_to_be_resumed(hanging_after, interrupted_while, world, tmp_path):
    err = interrupted_while(
        hanging_after(30), "compile", world / "questions.jsonl", "--program", "genground", "--index", world / "index",
        "--out", tmp_path / "artifact", "--quiet",
    )  # fmt: skip
    assert "Resume with the same command" in err
    assert (tmp_path / ".artifact.compiling" / "request.json").exists()


@pytest.mark.slow
def test_a_search_keeps_its_candidates(hanging_after, interrupted_while, verihop, world, tmp_path):
    words = (
        "compile", world / "questions.jsonl", "--program", "rag", "--index", world / "index", "--limit", 20,
        "--optimizer", "random_search", "--option", "candidates=1", "--out", tmp_path / "artifact", "--threads", 2,
    )  # fmt: skip
    err = interrupted_while(hanging_after(25), *words)
    assert err.strip().endswith("Interrupted. Resume with the same command and --resume.")
    kept = (tmp_path / ".artifact.compiling" / "candidates.jsonl").read_text().splitlines()
    assert len(kept) == 2
    assert json.loads((tmp_path / ".artifact.compiling" / "costs.json").read_text())["calls"] >= 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "kept", "written"),
    [
        (
            ("compile", "--optimizer", "race", "--max-demos", 1),
            ".artifact.compiling/candidates.jsonl",
            "artifact/artifact.json",
        ),
        (("tune", "--trials", 4), "artifact/study.db", "artifact/artifact/artifact.json"),
    ],
    ids=["race", "study"],
)
def test_a_race_and_a_study_go_on_to_their_end(
    words, kept, written, hanging_after, interrupted_while, verihop, world, tmp_path
):
    command, *options = words
    arguments = (
        command, world / "questions.jsonl", "--program", "rag", "--index", world / "index", "--limit", 16, *options,
        "--budget", "calls=150", "--out", tmp_path / "artifact", "--threads", 2,
    )  # fmt: skip
    server = hanging_after(25)
    err = interrupted_while(server, *arguments)
    assert err.strip().endswith("Interrupted. Resume with the same command and --resume.")
    assert (tmp_path / kept).stat().st_size > 0
    server.recover()
    code, out, err = verihop(*arguments, "--resume", "--lm", "m", "--api-base", server.base)
    assert (code, (tmp_path / written).exists()) == (0, True), out + err
    assert server.answered <= 150  # in both sessions


@pytest.mark.slow
def test_a_compilation_is_resumed_at_its_validation(hanging_after, interrupted_while, world, tmp_path):
    err = interrupted_while(
        hanging_after(50), "compile", world / "questions.jsonl", "--program", "rag", "--index", world / "index",
        "--limit", 8, "--val", world / "questions.jsonl", "--out", tmp_path / "artifact", "--accept", 0.001,
        "--max-demos", 1,
    )  # fmt: skip
    assert "Resume with the same command" in err
    assert read_rows(tmp_path / ".artifact.compiling" / "val")


@pytest.mark.slow
def test_a_question_asked_alone_ends_in_one_line(hanging_after, interrupted_while, world):
    err = interrupted_while(
        hanging_after(3), "ask", "Who is it?", "--program", "retro_rag", "--index", world / "index",
        "--no-cache",
    )  # fmt: skip
    assert err == "verihop: Interrupted.\n"


@pytest.mark.slow
def test_judgements_and_key_facts_are_kept(hanging_after, interrupted_while, verihop, world, tmp_path):
    runs = tmp_path / "a", tmp_path / "b"
    for run in runs:
        verihop(
            "eval", world / "questions.jsonl", "--limit", 8, "--program", "rag", "--index", world / "index",
            "--out", run, "--lm", "simulated", "--quiet",
        )  # fmt: skip
    err = interrupted_while(hanging_after(5), "judge", *runs, "--out", tmp_path / "judged", "--threads", 2)
    assert "Resume with the same command" in err
    assert read_rows(tmp_path / "judged")

    err = interrupted_while(
        hanging_after(12), "keyfacts", "build", world / "questions.jsonl", "--passages", world / "passages.jsonl",
        "--oracle", "lexical", "--out", tmp_path / "facts", "--threads", 2, "--quiet",
    )  # fmt: skip
    assert "Resume with the same command" in err
    assert read_rows(tmp_path / "facts")


def test_the_seconds_of_a_budget_end_a_run_at_a_hanging_server(hanging_after, verihop, world, tmp_path):
    server = hanging_after(1)  # for the probe, which is outside the budget
    code, _, err = verihop(
        "eval", world / "questions.jsonl", "--program", "rag", "--index", world / "index", "--out", tmp_path / "run",
        "--budget", "seconds=0.5", "--lm", "m", "--api-base", server.base, "--threads", 4,
    )  # fmt: skip
    assert (code, "The budget of 0.5 seconds is used up" in err) == (3, True)
    assert read_json(tmp_path / "run" / "summary.json")["spent"]["calls"] == 4


def test_a_test_that_ctrl_c_interrupts_a_command_in_can_be_interrupted_again(verihop, monkeypatch):
    """`main` leaves a handler that ends the process without a word, which is no good in a process that goes on."""
    monkeypatch.setattr("programs.listing.listed", lambda: signal.raise_signal(signal.SIGINT))
    assert verihop("programs") == (130, "", "verihop: Interrupted.\n")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


EARLY = """
import signal, sys

module = sys.argv.pop(1)

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from experiments.cli.main import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("module", ["typer", "dspy", "tantivy"])
def test_an_early_ctrl_c_is_one_line(module, world, tmp_path):
    """The signal arrives while a module is imported."""
    arguments = ["eval", world / "questions.jsonl", "--program", "rag", "--index", world / "index", "--lm", "simulated"]
    done = subprocess.run(
        [sys.executable, "-c", EARLY, module, *map(str, arguments), "--out", str(tmp_path / "run")],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "verihop: Interrupted.\n")
    assert not (tmp_path / "run").exists()


STARTING = """
import signal, sys

function = sys.argv.pop(1)

def interrupt(frame, event, argument):
    if event == "call" and frame.f_code.co_qualname == function:
        sys.setprofile(None)
        signal.raise_signal(signal.SIGINT)

sys.setprofile(interrupt)
from experiments.cli.main import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "command"),
    [
        ("App.command", "programs"),
        ("get_command", "programs"),
        ("Command.invoke", "programs"),
        ("read_settings", "config"),
    ],
)
def test_a_ctrl_c_while_the_command_starts_is_one_line(function, command):
    """The signal arrives while commands are named, their tree is built, words are parsed, or settings are read."""
    done = subprocess.run(
        [sys.executable, "-c", STARTING, function, command],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "verihop: Interrupted.\n")


INSIDE_A_LIBRARY = """
import threading

import numpy as np
import openvino
from openvino import opset13

from experiments.cli import main

def interrupted(**options):
    given = opset13.parameter([256, 256], np.float32)
    model = openvino.Model([opset13.matmul(given, given, False, False)], [given])
    compiled, begun = openvino.Core().compile_model(model, "CPU"), threading.Event()

    def compute():
        while True:
            compiled(np.zeros((256, 256), np.float32))
            begun.set()

    threading.Thread(target=compute, daemon=True).start()
    begun.wait()
    raise KeyboardInterrupt

main.app = interrupted
main.run_as_process()
"""


def test_ctrl_c_does_not_abort_while_a_thread_is_inside_a_library():
    """Of eight runs of `main` alone five were aborted (134) when the interpreter unwound the thread."""
    done = subprocess.run(
        [sys.executable, "-c", INSIDE_A_LIBRARY],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "verihop: Interrupted.\n")


def test_what_runs_at_the_end_of_a_process_runs_after_an_error():
    code = "import atexit; atexit.register(print, 'ended'); from experiments.cli import main; main.run_as_process()"
    done = subprocess.run(
        [sys.executable, "-c", code, "ask"], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stdout) == (2, "ended\n")


ENDING = """
import atexit, threading
from experiments.cli import main

def interrupted():
    raise KeyboardInterrupt

threading._shutdown = interrupted  # as by Ctrl-C while a thread is waited for
atexit.register(print, "ended")
main.run_as_process()
"""


def test_ctrl_c_while_threads_are_waited_for_leaves_out_nothing_else():
    done = subprocess.run(
        [sys.executable, "-c", ENDING, "ask"], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stdout) == (2, "ended\n")
