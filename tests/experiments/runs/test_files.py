import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.runs.files import RowLog, difference, discard_empty, open_run, read_json, read_rows, run_lock
from signatures.common.errors import UserError
from signatures.common.files import atomic_write


def write(folder: Path, *ids: str) -> None:
    with RowLog(folder) as log:
        for name in ids:
            log.append({"id": name})


def test_a_torn_last_line_is_passed_over_and_then_cut_off(tmp_path):
    write(tmp_path, "a", "b")
    with open(tmp_path / "rows.jsonl", "ab") as file:
        file.write('{"id": "c", "answer": "Mün'.encode()[:-1])
    assert [row["id"] for row in read_rows(tmp_path)] == ["a", "b"]
    write(tmp_path, "c")
    assert [row["id"] for row in read_rows(tmp_path)] == ["a", "b", "c"]


@given(cut=st.integers(0, 200))
def test_wherever_the_file_was_cut_whole_rows_survive(tmp_path_factory, cut):
    folder = tmp_path_factory.mktemp("run")
    write(folder, *"abcdefgh")
    path = folder / "rows.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    before = [row["id"] for row in read_rows(folder)]
    write(folder, "z")
    after = [row["id"] for row in read_rows(folder)]
    assert after == [*before, "z"]  # what reads as finished stays, so nothing is lost and nothing doubled
    assert before == list("abcdefgh")[: len(before)]


def test_a_broken_line_inside_is_reported_with_its_number(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"id": "a"}\n{"id": \n{"id": "b"}\n')
    with pytest.raises(UserError, match=r"rows\.jsonl:2 is not a row"):
        read_rows(tmp_path)


def test_the_last_row_of_a_question_counts(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"id": "a", "error": "x"}\n{"id": "b"}\n{"id": "a", "error": null}\n')
    assert read_rows(tmp_path) == [{"id": "a", "error": None}, {"id": "b"}]


def test_line_separators_and_half_surrogates_in_answers_do_no_harm(tmp_path):
    with RowLog(tmp_path) as log:
        log.append({"id": "a", "answer": "one\u2028two\x85three \ud83d"})
    assert read_rows(tmp_path)[0]["answer"] == "one\u2028two\x85three ?"


def test_the_first_field_that_differs_is_named_and_a_sitting_is_not_an_experiment():
    old = {"program": {"knobs": {"k": 1}}, "git_revision": "a", "versions": {"dspy": "3"}, "threads": 1}
    assert difference(old, {**old, "git_revision": "b", "versions": {}, "threads": 8}) is None
    assert difference(old, {**old, "program": {"knobs": {"k": 2}}}).field == "program.knobs.k"
    assert difference(old, {**old, "program": {"knobs": {}}}) is not None


def test_a_run_without_rows_may_be_started_afresh(tmp_path):
    open_run(tmp_path / "run", {"seed": 1}, resume=False)
    open_run(tmp_path / "run", {"seed": 2}, resume=False)
    assert read_json(tmp_path / "run" / "run.json") == {"seed": 2}
    discard_empty(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_no_run_says_so(tmp_path):
    with pytest.raises(UserError, match="is not the folder of a run"):
        read_json(tmp_path / "run.json")
    (tmp_path / "run.json").write_text("[1")
    with pytest.raises(UserError, match="cannot be read"):
        read_json(tmp_path / "run.json")
    (tmp_path / "run.json").write_text(json.dumps([1]))
    with pytest.raises(UserError, match="is not a JSON object"):
        read_json(tmp_path / "run.json")
    (tmp_path / "run.json").unlink()
    write(tmp_path, "a")
    with pytest.raises(UserError, match=r"contains rows.jsonl but no run.json"):
        open_run(tmp_path, {}, resume=True)


def test_the_next_session_removes_temporary_files_of_a_killed_one_and_nothing_else(tmp_path):
    with pytest.raises(KeyboardInterrupt), atomic_write(tmp_path / "run.json"):
        left = next(tmp_path.glob(".run.json.*.tmp")).name
        raise KeyboardInterrupt
    kept = [".hidden", ".notes.tmp", "x.tmp"]
    for name in [left, *kept]:
        (tmp_path / name).write_text("{")
    with run_lock(tmp_path):
        assert sorted(path.name for path in tmp_path.iterdir() if path.name != "run.lock") == sorted(kept)


def test_rows_are_readable_at_once_and_on_disk_at_the_end(tmp_path, monkeypatch):
    waits = []
    monkeypatch.setattr("os.fsync", waits.append)
    with RowLog(tmp_path, sync_every=3600) as log:
        for number in range(3):
            log.append({"id": str(number)})
        assert (tmp_path / "rows.jsonl").read_text().count("\n") == 3
        assert waits == []
    assert len(waits) == 1
    with RowLog(tmp_path) as log:
        log.append({"id": "3"})
        assert len(waits) == 2


def test_a_disk_that_fails_at_the_end_is_said(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match="No space left on device"), RowLog(tmp_path, sync_every=3600) as log:
        log.append({"id": "1"})
