"""The benchmark of `compare`: its generated runs are runs, and it measures what it says."""

import json
from pathlib import Path

import pytest

from experiments.analysis.summary import summarise
from experiments.benchmarks.speed import analysis
from experiments.benchmarks.speed.generated_runs import METRICS, generate_runs
from experiments.runs.files import read_rows
from signatures.common.errors import UserError


def test_generated_runs_are_read_as_runs_over_the_same_questions(tmp_path: Path) -> None:
    first, second = generate_runs(tmp_path / "a", runs=2, rows=20)
    assert [row["question"] for row in read_rows(first)] == [row["question"] for row in read_rows(second)]
    summary = summarise(first)
    assert (summary.answered, list(summary.metrics)) == (20, list(METRICS))
    again = generate_runs(tmp_path / "b", runs=2, rows=20)[1]
    assert (again / "rows.jsonl").read_bytes() == (second / "rows.jsonl").read_bytes()


def test_commands_are_measured_as_processes_and_their_pages_weighed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = generate_runs(tmp_path / "runs", runs=2, rows=4)
    monkeypatch.setattr(analysis, "opened", lambda page: {"listed": 0.5, "trace": 0.1})
    found = analysis.measure({"2 x 4, html": runs}, {"old": analysis.ROOT, "new": analysis.ROOT}, tmp_path, 1)
    case = found["2 x 4, html"]
    assert case["times_as_fast"]["seconds"] > 0
    for arm in ("old", "new"):
        assert case[arm]["seconds"]["min"] > 0
        assert case[arm]["peak_mb"]["max"] > 20  # at least that of the process that started it
        assert case[arm]["page_mb"] == pytest.approx((tmp_path / f"{arm}.html").stat().st_size / 1e6, abs=0.1)
        assert case[arm]["seconds_until_listed"] == {"min": 0.5, "median": 0.5, "max": 0.5}
    monkeypatch.setattr(analysis, "opened", lambda page: {})
    late = analysis.measure({"2 x 4, html": runs}, {"new": analysis.ROOT}, tmp_path, 1)["2 x 4, html"]
    assert "30 s" in late["new"]["opened"]
    assert "times_as_fast" not in late
    with pytest.raises(UserError, match="named twice"):
        analysis.timed(analysis.ROOT, [runs[0], runs[0]])


def test_the_committed_result_is_faster_in_every_case() -> None:
    result = json.loads((analysis.ROOT / analysis.OUT).read_text())
    assert len(result["cases"]) == 5
    assert all(case["times_as_fast"]["cpu_seconds"] > 2 for case in result["cases"].values())
    assert result["cases"]["5 x 2000, html"]["new"]["page_mb"] < 20
