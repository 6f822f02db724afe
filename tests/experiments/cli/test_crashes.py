"""What an uncaught error prints: a traceback without keys and escape sequences, in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
KEY = "sk-live-5f9a8b7c6d5e4f3c"
PROGRAM = """
import os, threading
import dspy

def fail(place):
    raise RuntimeError("\x1b]0;title\x07 " + place + " key " + os.environ["LAB_API_KEY"])

class Ignored:
    def __del__(self):
        fail("ignored")

class Crash(dspy.Module):
    \"""Fails.\"""
    def __init__(self, retrieve=None):
        super().__init__()
        self.read = dspy.Predict("question -> answer")
    def forward(self, question, passages=None):
        return dspy.Prediction(answer="", hops=[], passages=[])
    def max_calls(self):
        Ignored()
        thread = threading.Thread(target=fail, args=("threaded",))
        thread.start()
        thread.join()
        fail("uncaught")
"""


@pytest.fixture
def crash(world, tmp_path):
    """Return a function that evaluates a program with an error of its own, and returns the code and standard error."""
    (tmp_path / "crashing_logs.py").write_text(PROGRAM)
    paths = os.pathsep.join([str(ROOT), str(tmp_path)])

    def run(*options: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "experiments.cli.main", "eval", str(world / "questions.jsonl"), "--limit", "2"]
        done = subprocess.run(
            [*command, "--program", "crashing_logs:Crash", "--lm", "simulated", "--out", "run", *options],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths, "LAB_API_KEY": KEY}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        return done.returncode, done.stderr

    return run


def test_a_traceback_has_neither_keys_nor_escape_sequences(crash):
    code, err = crash()
    assert code == 1
    for place in ("ignored", "threaded", "uncaught"):
        assert f"RuntimeError: \\x1b]0;title\\x07 {place} key ***" in err
    assert err.splitlines()[-1].startswith("RuntimeError: ")
    assert KEY not in err
    assert "\x1b" not in err


def test_a_crash_is_lines_of_json_as_well(crash):
    code, err = crash("--log", "json")
    lines = [json.loads(line) for line in err.splitlines()]
    crashes = [line for line in lines if line["event"] == "crashed"]
    assert code == 1
    for line, place in zip(crashes, ("ignored", "threaded", "uncaught"), strict=True):
        assert line["exception"] == f"RuntimeError: \x1b]0;title\x07 {place} key ***"
        assert "in fail\n" in line["traceback"]
    assert KEY not in err
