"""Mutated files: what the readers of the commands do with them, and that the campaign sees what is wrong."""

import json
import os
import random
from pathlib import Path

import pytest

from experiments.benchmarks.mutations import worker
from experiments.benchmarks.mutations.__main__ import Reader, cases
from experiments.benchmarks.mutations.changes import copied, mutate
from experiments.benchmarks.mutations.inputs import INPUTS, ORIGINALS, Input
from programs.artifact import load
from signatures.common.errors import UserError


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    root = tmp_path_factory.mktemp("originals")
    for name in ("artifact", "run", "judgements", "key facts"):
        (root / name).mkdir()
        ORIGINALS["run"] = root / "run"
        INPUTS[name].make(root / name)
    return root


class NoWrites:
    """Stands for the audit hook, which could not be removed."""

    def __init__(self, seen=()):
        self.allowed, self.seen = ("/",), list(seen)


@pytest.mark.parametrize("part", range(4))
def test_no_mutated_artifact_ends_in_a_traceback(part, originals, tmp_path):
    """Its hashes are computed anew, as an attacker would."""
    loaded, refusals = 0, []
    for seed in range(part * 75, part * 75 + 75):
        folder = copied(originals / "artifact", tmp_path / "a")
        change = mutate(sorted((folder / "artifact").iterdir()), random.Random(seed))
        try:
            INPUTS["artifact"].seal(folder)
        except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError):
            change += " (not sealed)"
        try:
            load(folder / "artifact")
            loaded += 1
        except UserError as error:
            refusals.append((change, str(error)))
    assert loaded < 75
    assert [refusal for refusal in refusals if len(refusal[1].splitlines()) != 1] == []


@pytest.mark.parametrize("name", ["run", "judgements", "key facts"])
def test_no_mutated_rows_end_in_a_traceback(name, originals, tmp_path):
    outcomes = [
        worker._outcome(name, seed, False, originals, tmp_path / "case" / "inner", "", NoWrites()) for seed in range(25)
    ]
    assert [outcome for outcome in outcomes if outcome["outcome"] not in ("accepted", "refused")] == []


def outcome_of(use, tmp_path, monkeypatch, *, protected=True, writes=None):
    fake = Input(lambda folder: None, use, protected=protected)
    monkeypatch.setitem(worker.INPUTS, "fake", fake)
    (tmp_path / "originals" / "fake").mkdir(parents=True)
    (tmp_path / "originals" / "fake" / "a.json").write_text('{"a": 1}')
    expected = worker._digest("right")
    case = tmp_path / "case" / "inner"
    return worker._outcome("fake", 3, False, tmp_path / "originals", case, expected, writes or NoWrites())["outcome"]


def refuse(*lines):
    def use(folder):
        raise UserError("\n".join(lines))

    return use


def fail(folder):
    raise KeyError("a")


OUTCOMES = {
    "accepted": lambda folder: "right",
    "silently wrong": lambda folder: "wrong",
    "refused": refuse("no"),
    "traceback": fail,
}


@pytest.mark.parametrize("expected", OUTCOMES)
def test_every_outcome_is_told_apart(expected, tmp_path, monkeypatch):
    assert outcome_of(OUTCOMES[expected], tmp_path, monkeypatch) == expected


def test_a_refusal_of_several_lines_counts_as_a_traceback(tmp_path, monkeypatch):
    assert outcome_of(refuse("no", "File x, line 3"), tmp_path, monkeypatch) == "traceback"


def test_another_result_is_wrong_only_where_a_digest_promised_the_same(tmp_path, monkeypatch):
    assert outcome_of(OUTCOMES["silently wrong"], tmp_path, monkeypatch, protected=False) == "accepted"


def test_a_file_written_outside_is_told_apart(tmp_path, monkeypatch):
    writes = NoWrites(["open /etc/x"])
    assert outcome_of(OUTCOMES["accepted"], tmp_path, monkeypatch, writes=writes) == "written outside"


def test_a_file_left_beside_the_folder_is_told_apart(tmp_path, monkeypatch):
    def use(folder):
        (folder.parent / "left").touch()
        return "right"

    assert outcome_of(use, tmp_path, monkeypatch) == "written outside"


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
def test_the_paths_that_an_event_writes(event, paths):
    assert worker._written(*event) == paths


def test_a_process_that_ends_is_a_crash_and_the_next_case_starts_another(tmp_path):
    reader = Reader(tmp_path, work=os._exit)  # ends at once: `_exit` takes no pipe
    for seed in (1, 2):
        assert reader.read(("artifact", seed, False))["outcome"] == "crash"
    reader.stop()


def test_the_same_seed_gives_the_same_mutation(originals, tmp_path):
    def mutated(name: str, seed: int) -> tuple[str, list[bytes]]:
        folder = copied(originals / "artifact", tmp_path / name) / "artifact"
        change = mutate(sorted(folder.iterdir()), random.Random(seed))
        return change, [path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()]

    assert mutated("a", 5) == mutated("b", 5)
    assert mutated("a", 5) != mutated("b", 6)


def test_every_input_is_mutated_and_those_with_digests_in_both_ways():
    seen = set(cases(2 * len(INPUTS), seed=0))
    assert {name for name, _, _ in seen} == set(INPUTS)
    assert {name for name, _, sealed in seen if sealed} == {name for name, kind in INPUTS.items() if kind.seal}


RESULT = Path(__file__).parents[3] / "experiments" / "results" / "mutations.json"


def test_the_committed_campaign_adds_up():
    record = json.loads(RESULT.read_text())
    assert record["count"] >= 3000
    assert sum(record["total"].values()) == record["count"]
    assert sum(sum(line.values()) for line in record["counts"].values()) == record["count"]
    assert record["total"]["accepted"] + record["total"]["refused"] == record["count"]
    assert record["bad"] == []
