"""Shards and partial runs are merged into a run that is as one made in one piece."""

import json
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from experiments.pipeline.merging import merge as merging
from experiments.pipeline.merging.merge import merge
from experiments.runs.calls import log_unfinished, spent
from experiments.runs.files import difference, read_json, read_rows, run_lock
from experiments.runs.shards import Shard
from signatures.common.errors import UserError
from signatures.common.files import exclusive_lock

METRICS = ["f1[hotpot]", "em"]


def run(toy: ModuleType, folder: Path, shard: Shard | None = None, n: int = 8, **options: Any) -> Path:
    program = options.pop("program", None) or toy.Toy()
    engine = options.pop("engine", None) or toy.Engine()
    asked = options.pop("asked", None) or toy.questions(n)
    connection = toy.link(engine, options.pop("lm_id", "scripted"))
    connection.lm.kwargs["temperature"] = options.pop("temperature", 0.0)
    options = {"metrics": METRICS, "threads": 4, **options}
    toy.run(program, asked, connection=connection, folder=folder, shard=shard, **options)
    return folder


def shards(toy: ModuleType, folder: Path, of: int = 3, **options: Any) -> list[Path]:
    return [run(toy, folder / f"s{index}", Shard(index, of), **options) for index in range(1, of + 1)]


def timeless(value: Any) -> Any:
    """Return a JSON value without what differs between two runs of the same: seconds, and the folder's name."""
    if isinstance(value, dict):
        return {name: timeless(item) for name, item in value.items() if "seconds" not in name and name != "folder"}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def without_key(path: Path, *names: str) -> None:
    path.write_text(json.dumps({name: value for name, value in read_json(path).items() if name not in names}))


def test_three_shards_merged_are_as_one_run(toy, tmp_path):
    one = run(toy, tmp_path / "one", threads=1)
    report = merge(shards(toy, tmp_path), tmp_path / "whole")
    assert report.summary.complete
    assert timeless(read_rows(tmp_path / "whole")) == timeless(read_rows(one))
    assert timeless(read_json(tmp_path / "whole" / "summary.json")) == timeless(read_json(one / "summary.json"))
    description = read_json(tmp_path / "whole" / "run.json")
    assert difference(description, read_json(one / "run.json")) is None
    assert [part["shard"] for part in description["merged"]["parts"]] == [{"index": n, "of": 3} for n in (1, 2, 3)]
    assert [part["rows"] for part in description["merged"]["parts"]] == [3, 3, 2]
    assert description["merged"]["seconds"] == pytest.approx(
        sum(row["seconds"] for row in read_rows(tmp_path / "whole"))
    )
    assert {path.name for path in tmp_path.iterdir()} == {"one", "s1", "s2", "s3", "whole"}
    assert {path.name for path in (tmp_path / "whole").iterdir()} == {"run.json", "rows.jsonl", "summary.json"}


def test_a_merged_run_is_merged_in_any_order_of_its_parts(toy, tmp_path):
    parts = shards(toy, tmp_path, repeats=2, temperature=0.7)
    merge(parts, tmp_path / "a")
    merge(parts[::-1], tmp_path / "b")
    rows = (tmp_path / "a" / "rows.jsonl").read_bytes()
    assert rows == (tmp_path / "b" / "rows.jsonl").read_bytes()
    keys = [(row["repeat"], row["id"]) for row in read_rows(tmp_path / "a")]
    assert keys == [(repeat, f"id{n}") for repeat in (1, 2) for n in range(8)]


def test_a_shard_is_resumed_as_any_run_and_not_as_another_shard(toy, tmp_path):
    folder = run(toy, tmp_path / "s2", Shard(2, 3))
    lines = (folder / "rows.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "rows.jsonl").write_bytes(b"".join(lines[:1]))
    engine = toy.Engine()
    run(toy, folder, Shard(2, 3), engine=engine, resume=True)
    assert (engine.calls, len(read_rows(folder))) == (2, 3)
    assert {row["id"] for row in read_rows(folder)} == {"id1", "id4", "id7"}
    with pytest.raises(UserError, match="shard.index was 2 and is now 3"):
        run(toy, folder, Shard(3, 3), resume=True)
    with pytest.raises(UserError, match="choose at most 8 shards"):
        run(toy, tmp_path / "other", Shard(1, 9))


def test_costs_of_failures_and_of_unfinished_questions_are_added(toy, tmp_path):
    def fail(prompt: str) -> None:
        if "\nq3\n" in prompt:
            raise RuntimeError("no answer")

    parts = shards(toy, tmp_path, engine=toy.Engine(fail))
    for place, part in enumerate(parts, start=1):
        log_unfinished(part, [{"calls": place}, {"calls": 1}])
    run(toy, parts[0], Shard(1, 3), resume=True)  # id3 failed in shard 1: its earlier row stays
    expected = {name: sum(spent(part)[name] for part in parts) for name in ("calls", "prompt_tokens", "wait_seconds")}
    summary = merge(parts, tmp_path / "whole").summary
    assert expected["calls"] == 8 + 9
    assert {name: spent(tmp_path / "whole")[name] for name in expected} == expected
    assert (summary.errors, summary.spent["calls"]) == (0, 17)
    assert len(read_rows(tmp_path / "whole")) == 8
    assert len((tmp_path / "whole" / "rows.jsonl").read_text().splitlines()) == 9


def test_the_provenance_of_each_part_is_kept(toy, tmp_path):
    parts = shards(toy, tmp_path)
    changed = read_json(parts[1] / "run.json")
    changed |= {"git_revision": "other", "started": "2020-01-01T00:00:00+00:00", "notes": ["Mind this."]}
    changed["versions"] = {**changed["versions"], "dspy": "0"}
    (parts[1] / "run.json").write_text(json.dumps(changed))
    merge(parts, tmp_path / "whole")
    whole = read_json(tmp_path / "whole" / "run.json")
    assert [part["git_revision"] for part in whole["merged"]["parts"]][1] == "other"
    assert whole["git_revision"] is None
    assert "dspy" not in whole["versions"]
    assert whole["started"] == "2020-01-01T00:00:00+00:00"
    assert whole["merged"]["wall_seconds"] > 1e8
    assert whole["notes"][0] == "Mind this."
    assert "Its parts differ in code or library versions" in whole["notes"][1]
    without_key(parts[2] / "run.json", "finished")  # killed
    merge(parts, tmp_path / "again")
    again = read_json(tmp_path / "again" / "run.json")
    assert again["merged"]["wall_seconds"] is None
    assert "finished" not in again


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"k": 3}, "program.knobs.k is 3, there 2"),
        ({"lm_id": "other"}, "lm.id is 'other', there 'scripted'"),
        ({"metrics": ["em"]}, r"metrics.f1\[hotpot\] is None"),
        ({"seed": 1}, "seed is 1, there 0"),
        ({"n": 9}, "questions.n is 9, there 8"),
    ],
)
def test_parts_of_another_run_are_refused_with_the_value(toy, tmp_path, change, field):
    first, second = shards(toy, tmp_path, of=2)
    shutil.rmtree(second)
    program = toy.Toy(k=change.pop("k", 2))
    run(toy, second, Shard(2, 2), program=program, **change)
    with pytest.raises(UserError, match=f"s2 is not a part of the run in .*: {field}"):
        merge([first, second], tmp_path / "whole")


def test_another_index_other_texts_and_other_numbers_of_shards_are_refused(toy, tmp_path):
    parts = shards(toy, tmp_path, of=2)
    before = read_json(parts[1] / "run.json")
    (parts[1] / "run.json").write_text(json.dumps({**before, "corpus": {"fingerprint": "abc"}}))
    with pytest.raises(UserError, match="corpus.fingerprint is 'abc', there None"):
        merge(parts, tmp_path / "whole")
    (parts[1] / "run.json").write_text(json.dumps({**before, "sentences": {"em": "other"}}))
    with pytest.raises(UserError, match="Score the parts by the same metrics and texts"):
        merge(parts, tmp_path / "whole")
    with pytest.raises(UserError, match="one of 2 shards, .* one of 3"):
        merge([parts[0], run(toy, tmp_path / "third", Shard(3, 3))], tmp_path / "whole")
    assert not (tmp_path / "whole").exists()


def test_missing_shards_and_answers_are_refused_or_merged_on_request(toy, tmp_path):
    parts = shards(toy, tmp_path, of=4)
    with pytest.raises(UserError, match="Shards without a part: 2/4, 4/4. Name their folders, or merge what there is"):
        merge([parts[0], parts[2]], tmp_path / "whole")
    lines = (parts[0] / "rows.jsonl").read_bytes().splitlines(keepends=True)
    (parts[0] / "rows.jsonl").write_bytes(lines[0])
    with pytest.raises(UserError, match="Answers are missing: .*s1 has 1 of 2. Resume what was stopped"):
        merge(parts, tmp_path / "whole")
    half = merge([parts[2], parts[0]], tmp_path / "half", incomplete=True).summary
    assert (half.complete, half.answered, half.questions) == (False, 3, 8)
    assert "5 of 8 questions are not answered yet" in str(half.notice)
    engine = toy.Engine()
    run(toy, tmp_path / "half", engine=engine, resume=True)  # as a run in one piece
    assert (engine.calls, len(read_rows(tmp_path / "half"))) == (5, 8)


def test_an_incomplete_merge_is_merged_with_the_rest(toy, tmp_path):
    parts = shards(toy, tmp_path)
    merge([parts[2], parts[1]], tmp_path / "half", incomplete=True)
    report = merge([parts[0], tmp_path / "half"], tmp_path / "whole")
    assert (report.summary.complete, report.notices) == (True, [])
    assert [row["id"] for row in read_rows(tmp_path / "whole")] == [f"id{n}" for n in range(8)]


def test_a_copy_that_went_on_counts_shared_rows_and_costs_once(toy, tmp_path):
    first = run(toy, tmp_path / "first")
    log_unfinished(first, [{"calls": 5}])
    lines = (first / "rows.jsonl").read_bytes().splitlines(keepends=True)
    (first / "rows.jsonl").write_bytes(b"".join(lines[:3]))
    shutil.copytree(first, tmp_path / "second")
    run(toy, tmp_path / "second", resume=True)
    log_unfinished(tmp_path / "second", [{"calls": 2}])
    report = merge([first, tmp_path / "second"], tmp_path / "whole")
    assert report.summary.complete
    assert spent(tmp_path / "whole")["calls"] == 8 + 5 + 2
    assert "rows are in the order in which they were written" in report.notices[0]  # no question file


def test_the_same_question_with_two_answers_is_refused(toy, tmp_path):
    first = run(toy, tmp_path / "first")
    shutil.copytree(first, tmp_path / "second")
    rows = (first / "rows.jsonl").read_text()
    (tmp_path / "second" / "rows.jsonl").write_text(rows.replace('"answer": "even"', '"answer": "odd"'))
    with pytest.raises(UserError, match="has different rows: answer is 'even' in .*first and 'odd' in .*second"):
        merge([first, tmp_path / "second"], tmp_path / "whole")


def test_a_locked_part_an_existing_folder_and_a_part_named_twice_are_refused(toy, tmp_path):
    parts = shards(toy, tmp_path, of=2)
    with run_lock(parts[1]), pytest.raises(UserError, match="Another process is writing the run in .*s2"):
        merge(parts, tmp_path / "whole")
    with exclusive_lock(tmp_path / ".whole.lock", "busy"), pytest.raises(UserError, match="is merging into .*whole"):
        merge(parts, tmp_path / "whole")
    with pytest.raises(UserError, match="s1 exists already. Choose a new or empty folder"):
        merge(parts, parts[0])
    with pytest.raises(UserError, match="s1 is named twice"):
        merge([parts[0], parts[0]], tmp_path / "whole")
    with pytest.raises(UserError, match="is not the folder of a run"):
        merge([parts[0], tmp_path / "nothing"], tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s1", "s2"]


def test_a_row_of_another_shard_and_other_ids_are_refused(toy, tmp_path):
    parts = shards(toy, tmp_path, of=2)
    rows = (parts[0] / "rows.jsonl").read_bytes()
    (parts[0] / "rows.jsonl").write_bytes(rows + (parts[1] / "rows.jsonl").read_bytes())
    with pytest.raises(UserError, match="which is not of shard 1/2"):
        merge(parts, tmp_path / "whole")
    (parts[0] / "rows.jsonl").write_bytes(rows)
    description = read_json(parts[0] / "run.json")
    description["shard"]["ids"].reverse()
    (parts[0] / "run.json").write_text(json.dumps(description))
    with pytest.raises(UserError, match="name other questions than were asked"):
        merge(parts, tmp_path / "whole")


def test_a_merge_that_fails_leaves_nothing_and_one_that_was_killed_is_no_obstacle(toy, tmp_path, monkeypatch):
    parts = shards(toy, tmp_path, of=2)

    def broken(*arguments: Any, **options: Any) -> None:
        assert list(tmp_path.glob(".whole.merging-*/*/rows.jsonl"))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(merging, "summarise", broken)
        with pytest.raises(KeyboardInterrupt):
            merge(parts, tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s1", "s2"]
    hidden = tmp_path / ".whole.merging-abcdefgh"
    hidden.mkdir()
    (hidden / "rows.jsonl").write_text("half a")
    assert merge(parts, tmp_path / "whole").summary.complete
    assert not hidden.exists()
