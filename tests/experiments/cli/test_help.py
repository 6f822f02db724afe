"""Help and listings of the command line."""

import json
import os
import subprocess
import sys
from importlib import metadata

import pytest

DATA_COMMANDS = ["list", "fetch", "convert", "report", "split", "subset", "pool", "gold", "world"]
DISTILL_COMMANDS = ["synthesize", "mix"]
ARTIFACT_COMMANDS = ["show", "verify", "diff", "export", "ensemble", "cascade"]


COMMANDS = [
    "demo",
    "ask",
    "index",
    "compile",
    "eval",
    "merge",
    "compare",
    "leaderboard",
    "vote",
    "trace",
    "export",
    "judge",
    "keyfacts",
    "programs",
    "data",
    "distill",
    "artifact",
    "review",
    "doctor",
    "ingest",
    "search",
    "sync",
    "tune",
    "replay",
    "score",
    "optimizers",
    "metrics",
    "serve",
    "mcp",
    "config",
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        [],
        *([name] for name in COMMANDS),
        *(["data", n] for n in DATA_COMMANDS),
        *(["distill", n] for n in DISTILL_COMMANDS),
        *(["artifact", n] for n in ARTIFACT_COMMANDS),
    ],
    ids=str,
)
def test_every_command_has_help(command, verihop):
    code, out, err = verihop(*command, "--help")
    assert (code, err) == (0, "")
    assert "Usage: verihop" in out


def test_the_version_is_that_of_the_distribution(verihop):
    assert verihop("--version") == (0, f"verihop {metadata.version('verihop')}\n", "")


def test_shells_get_completion(verihop):
    help_ = verihop("--help")[1]
    assert "--install-completion" in help_
    assert "--show-completion" in help_


def test_completion_knows_the_commands():
    asked = {"_VERIHOP_COMPLETE": "complete_bash", "COMP_WORDS": "verihop ser", "COMP_CWORD": "1"}
    command = [sys.executable, "-c", "from experiments.cli.main import main; main()"]
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["serve"]


def test_programs_are_listed_for_people_and_machines(verihop):
    assert "genground" in verihop("programs")[1]
    listed = json.loads(verihop("programs", "--json")[1])
    knob = listed["genground"]["knobs"]["k"]
    assert (knob["default"], knob["space"]) == (10, "1..20")
