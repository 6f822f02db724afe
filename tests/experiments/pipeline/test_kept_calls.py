"""Every LM call of a run is kept: in threads and processes, over repeats, resumes, kills and merges."""

import contextlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from experiments.pipeline.merging.merge import merge
from experiments.pipeline.parallel.process_pool import can_fork
from experiments.runs.calls import last_frames, read_calls
from experiments.runs.files import CALLS, key_of, read_rows
from experiments.runs.shards import Shard
from programs.lms.adapter import ChatForm
from programs.lms.calls.budget import Budget, BudgetExceeded
from programs.lms.calls.metered import metered_lm


def run(toy: ModuleType, folder: Path, engine: Any = None, n: int = 6, **options: Any) -> Any:
    budget, sampling = options.pop("budget", None), {"temperature": 0.7 if "repeats" in options else 0.0}
    lm = metered_lm("local/scripted", engine=engine or toy.Engine(), cache=False, budget=budget, **sampling)
    options = {"threads": 2, "metrics": ["em"], **options}
    connection = toy.Link(lm, ChatForm())
    return toy.run(toy.Toy(), toy.questions(n), connection=connection, folder=folder, **options)


def kept(folder: Path) -> dict[Any, list[str]]:
    """Return the last message of each call, by question and repeat."""
    frames = last_frames(folder)
    return {key: [each["messages"][-1]["content"] for each in read_calls(folder, frames[key])] for key in frames}


def check(folder: Path, rows: int) -> None:
    found = kept(folder)
    assert {key_of(row) for row in read_rows(folder)} == set(found)
    assert len(found) == rows
    for (id, _), prompts in found.items():
        assert len(prompts) == 1
        assert f"\nq{id.removeprefix('id')}\n" in prompts[0]


def test_the_calls_of_every_row_are_kept(toy, tmp_path):
    run(toy, tmp_path / "run")
    check(tmp_path / "run", 6)
    frame = last_frames(tmp_path / "run")["id0", 1]
    (call,) = read_calls(tmp_path / "run", frame)
    assert (call["id"], call["repeat"], call["predictor"], call["prompt_tokens"]) == ("id0", 1, "read", 140)


@pytest.mark.skipif(not can_fork(), reason="this system does not fork")
def test_processes_and_repeats_keep_them_as_well(toy, tmp_path):
    run(toy, tmp_path / "run", threads=4, processes=2, repeats=2)
    check(tmp_path / "run", 12)
    calls = [read_calls(tmp_path / "run", frame)[0] for frame in last_frames(tmp_path / "run").values()]
    assert len({call["settings"].get("rollout_id") for call in calls}) == 2  # which sample it was


def test_none_are_kept_where_none_are_wanted(toy, tmp_path):
    run(toy, tmp_path / "run", calls=False)
    assert not (tmp_path / "run" / CALLS).exists()


def test_a_question_that_is_asked_again_has_the_calls_of_its_last_attempt(toy, tmp_path):
    def failing(prompt: str) -> None:
        if "\nq3\n" in prompt:
            raise RuntimeError("no")

    run(toy, tmp_path / "run", toy.Engine(failing))
    frames = last_frames(tmp_path / "run")
    (failed,) = read_calls(tmp_path / "run", frames["id3", 1])
    assert "no" in failed["error"]
    run(toy, tmp_path / "run", resume=True)
    check(tmp_path / "run", 6)
    (answered,) = read_calls(tmp_path / "run", last_frames(tmp_path / "run")["id3", 1])
    assert answered["error"] is None


def test_a_run_that_was_killed_or_out_of_budget_goes_on_without_duplicates(toy, tmp_path):
    folder = tmp_path / "run"
    with contextlib.suppress(BudgetExceeded):
        run(toy, folder, threads=1, budget=Budget(calls=3))
    assert 0 < len(kept(folder)) < 6
    rows = (folder / "rows.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "rows.jsonl").write_bytes(b"".join(rows[:-1]))  # killed after the calls, before the row
    run(toy, folder, resume=True)
    check(folder, 6)
    (folder / CALLS).write_bytes((folder / CALLS).read_bytes()[:-3])  # while calls are written
    rows = (folder / "rows.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "rows.jsonl").write_bytes(b"".join(rows[:-1]))
    run(toy, folder, resume=True)
    check(folder, 6)


def test_merged_shards_have_the_calls_of_the_rows_that_count(toy, tmp_path):
    def failing(prompt: str) -> None:
        if "\nq2\n" in prompt:
            raise RuntimeError("no")

    run(toy, tmp_path / "a", toy.Engine(failing), shard=Shard(1, 2))
    run(toy, tmp_path / "again", shard=Shard(1, 2))
    run(toy, tmp_path / "b", shard=Shard(2, 2), calls=False)
    for name in ("a", "again"):  # all rows of one, and of the other the question that failed
        rows = (tmp_path / name / "rows.jsonl").read_bytes().splitlines(keepends=True)
        chosen = [line for line in rows if (b'"id2"' in line) or name == "a"]
        (tmp_path / name / "rows.jsonl").write_bytes(b"".join(chosen))
    report = merge([tmp_path / "a", tmp_path / "again", tmp_path / "b"], tmp_path / "whole")
    assert report.notices[-1] == f"LM calls of 3 answers were not kept: those of {tmp_path / 'b'} (3)."
    assert [id for id, _ in kept(tmp_path / "whole")] == ["id0", "id2", "id4"]
    (call,) = read_calls(tmp_path / "whole", last_frames(tmp_path / "whole")["id2", 1])
    assert call["error"] is None


def test_a_merge_without_any_calls_has_nothing_to_say(toy, tmp_path):
    for index in (1, 2):
        run(toy, tmp_path / str(index), shard=Shard(index, 2), calls=False)
    assert not any("calls" in notice for notice in merge([tmp_path / "1", tmp_path / "2"], tmp_path / "w").notices)
