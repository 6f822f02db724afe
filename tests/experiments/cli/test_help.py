"""Help and listings of the command line."""

import json

import pytest

DATA_COMMANDS = ["list", "fetch", "convert", "subset", "pool", "world"]
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
    "judge",
    "keyfacts",
    "programs",
    "data",
    "distill",
    "artifact",
    "review",
    "doctor",
]


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


def test_programs_are_listed_for_people_and_machines(verihop):
    assert "genground" in verihop("programs")[1]
    listed = json.loads(verihop("programs", "--json")[1])
    knob = listed["genground"]["knobs"]["k"]
    assert (knob["default"], knob["space"]) == (10, "1..20")
