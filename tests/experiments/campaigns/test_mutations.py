"""Mutated files: no malformed file may crash a command, write elsewhere or pass unnoticed.

Each kind of file that a command reads is written once, copied, changed (`changes.py`) and read by the functions of the
commands (`inputs.py`) in a process of its own (`reading.py`), so that a crash or a hang is a failure of its own. To
mutate more, raise `CASES`; for other mutations, `FIRST`.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from signatures.common.errors import UserError
from tests.experiments.campaigns.inputs import INPUTS, Input
from tests.experiments.campaigns.reading import digest_of, mutated, outcome_of, written
from tests.forked import Forked

FIRST, CASES = 0, 4  # of the seeds of an input
SECONDS = 300  # for all cases of an input: more is a hang
READING = "import sys; from tests.experiments.campaigns.reading import main; main(*sys.argv[1:])"


@pytest.fixture(scope="module")
def reading() -> Iterator[Forked]:
    with Forked("tests.experiments.campaigns.reading") as forked:
        yield forked


@pytest.mark.slow
@pytest.mark.parametrize("name", INPUTS)
def test_a_mutated_file_is_refused_in_one_line_or_leads_to_what_it_did(
    name: str, reading: Forked, tmp_path: Path
) -> None:
    try:
        done = reading.run(READING, name, FIRST, CASES, tmp_path, timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"A hang; the last lines: {error.stdout[-2000:]}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, (lines[-1:], done.stderr[-2000:])  # the last line is the case that ended the process
    outcomes = [case | found for case, found in zip(lines[::2], lines[1::2], strict=True)]
    assert [case for case in outcomes if case["outcome"] not in ("accepted", "refused")] == []
    assert len(outcomes) == CASES
    assert name == "documents" or "refused" in {case["outcome"] for case in outcomes}


def judged(use, folder: Path, *, expected: str | None = "right", seen=()) -> str:
    (folder / "case" / "inner").mkdir(parents=True)
    writes = SimpleNamespace(seen=Seen(seen), allowed=())
    promised = None if expected is None else digest_of(expected)
    return outcome_of(Input(print, use), folder / "case" / "inner", promised, writes, ("/",))["outcome"]


class Seen(list):
    """What an audit hook, which could not be removed, would hear while the input is read."""

    def clear(self) -> None:
        pass


def refuse(text: str):
    def use(folder: Path) -> None:
        raise UserError(text)

    return use


def test_every_outcome_is_told_apart(tmp_path: Path) -> None:
    def right(folder: Path) -> str:
        return "right"

    def left(folder: Path) -> str:
        (folder.parent / "left").touch()
        return "right"

    def fail(folder: Path) -> None:
        raise KeyError("a")

    assert judged(right, tmp_path / "1") == "accepted"
    assert judged(lambda folder: "wrong", tmp_path / "2") == "silently wrong"
    assert judged(lambda folder: "wrong", tmp_path / "3", expected=None) == "accepted"  # no digest promised the same
    assert judged(refuse("no"), tmp_path / "4") == "refused"
    assert judged(refuse("no\nFile x, line 3"), tmp_path / "5") == "traceback"
    assert judged(fail, tmp_path / "6") == "traceback"
    assert judged(right, tmp_path / "7", seen=["open /etc/x"]) == "written outside"
    assert judged(left, tmp_path / "8") == "written outside"


EVENTS = [
    (("open", ("a", "w", 0)), ["a"]),
    (("open", ("a", "r", 0)), []),
    (("open", ("a", None, os.O_WRONLY | os.O_CREAT)), ["a"]),
    (("os.rename", ("a", "b", -1, -1)), ["a", "b"]),
    (("os.symlink", ("a", "b", -1)), ["b"]),
    (("os.mkdir", ("a", 0o777, -1)), ["a"]),
    (("os.remove", ("a", 7)), []),
    (("os.remove", ("a", -1)), ["a"]),
    (("import", ("a",)), []),
]


@pytest.mark.parametrize(("event", "paths"), EVENTS)
def test_the_paths_that_an_event_writes(event, paths) -> None:
    assert written(*event) == paths


def test_the_same_seed_gives_the_same_mutation(tmp_path: Path) -> None:
    kind = INPUTS["artifact"]
    (tmp_path / "original").mkdir()
    kind.make(tmp_path / "original")

    def changed(name: str, seed: str) -> tuple[str, list[bytes]]:
        change = mutated(kind, tmp_path / "original", tmp_path / name, seed, sealed=True)
        files = sorted((tmp_path / name / "artifact").iterdir())
        return change, [path.read_bytes() for path in files if path.is_file()]

    assert changed("a", "5") == changed("b", "5")
    assert changed("a", "5") != changed("b", "6")
