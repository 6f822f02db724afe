"""Comparisons of incomplete, repeated, tiny and many runs, against the straightforward computation."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.analysis import statistics
from experiments.analysis.compare import compare_runs
from experiments.analysis.report.html import write_report
from experiments.cli.runs.compare import compare
from experiments.runs import files
from optimizers.metrics.scoring import COSTS
from signatures.common.errors import UserError
from tests.experiments.analysis.generated_runs import METRICS, generate_runs

Rows = list[dict[str, Any]]


def read(folder: Path) -> Rows:
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def write(folder: Path, rows: Rows, **description: Any) -> None:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "run.json").write_text(json.dumps({**json.loads((folder / "run.json").read_text()), **description}))


def straightforward(values: list[float]) -> tuple[float | None, float | None]:
    """The interval as it was computed before draws were shared."""
    if len(values) < 2:
        return None, None
    data = np.asarray(values)
    draws = np.random.default_rng(0).integers(0, len(data), size=(2000, len(data)))
    low, high = np.quantile(data[draws].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def columns(runs: list[Rows], value: Callable[[dict[str, Any]], float | None]) -> list[list[float | None]]:
    """The value of each shared question in each run, the mean of its repeats, in the order of ids."""
    shared = sorted(set.intersection(*({row["id"] for row in rows} for rows in runs)))
    found = []
    for rows in runs:
        own: dict[str, list[float]] = {name: [] for name in shared}
        for row in rows:
            if row["id"] in own and (score := value(row)) is not None:
                own[row["id"]].append(score)
        found.append([math.fsum(scores) / len(scores) if scores else None for scores in own.values()])
    return found


@pytest.fixture
def uneven(tmp_path: Path) -> list[Path]:
    """Runs with undefined scores, missing and shuffled rows, errors, a row asked again, and repeats."""
    one, two, three, four = folders = generate_runs(tmp_path, runs=4, rows=60, cited=1)
    rows = read(one)
    for place in (3, 5):
        rows[place]["scores"]["f1[hotpot]"] = None
    rows[8] |= {"error": "RuntimeError: lost", "answer": ""}
    again = {**rows[9], "scores": {**rows[9]["scores"], "em": 1 - rows[9]["scores"]["em"]}}
    write(one, [rows[9], *rows[:9], *rows[10:], again])
    write(two, read(two)[4:][::-1])
    write(three, read(three)[:50])
    repeated = [
        {**row, "repeat": repeat, "scores": {**row["scores"], "em": float(repeat == 1)}}
        for row in read(four)
        for repeat in (1, 2)
    ]
    write(four, repeated, repeats=2)
    return folders


def test_uneven_runs_give_the_numbers_of_the_straightforward_computation(uneven: list[Path]) -> None:
    comparison = compare_runs(uneven)
    assert comparison.questions == 46
    runs = [list({(row["id"], row.get("repeat")): row for row in read(folder)}.values()) for folder in uneven]
    expected = {name: columns(runs, lambda row, name=name: row["scores"][name]) for name in METRICS}
    expected |= {name: columns(runs, cost.function) for name, cost in COSTS.items()}
    lines = {**comparison.metrics, **comparison.costs}
    assert list(lines) == list(expected)
    for name, values in expected.items():
        for line, own in zip(lines[name], values, strict=True):
            defined = [value for value in own if value is not None]
            assert (line.mean.n, line.mean.undefined) == (len(defined), len(own) - len(defined))
            assert line.mean.mean == math.fsum(defined) / len(defined)
            assert (line.mean.low, line.mean.high) == pytest.approx(straightforward(defined), abs=1e-8)
            if line.against_first is None:
                continue
            both = [(a, b) for a, b in zip(values[0], own, strict=True) if a is not None and b is not None]
            differences = [b - a for a, b in both]
            assert line.against_first.n == len(both)
            assert line.against_first.difference == math.fsum(differences) / len(both)
            interval = (line.against_first.low, line.against_first.high)
            assert interval == pytest.approx(straightforward(differences), abs=1e-8)
    assert any(mean.mean.undefined for mean in comparison.metrics["f1[hotpot]"])
    assert comparison.faults["run1"]["errors"] == sum(
        row["error"] is not None
        for row in runs[0]
        if row["id"] in {own[0]["id"] for own in comparison.runs[0].questions}
    )


def test_runs_of_one_question_have_no_interval_and_a_report(tmp_path: Path) -> None:
    folders = generate_runs(tmp_path, runs=2, rows=1)
    comparison = compare_runs(folders)
    first, second = comparison.metrics["em"]
    assert (first.mean.n, first.mean.low, first.mean.high) == (1, None, None)
    assert second.against_first is not None
    assert (second.against_first.n, second.against_first.low) == (1, None)
    assert "n = 1 is too small" in " ".join(comparison.notices)
    assert write_report(folders, tmp_path / "report.html", comparison=comparison).stat().st_size > 10_000


def test_runs_without_a_common_question_are_refused(tmp_path: Path) -> None:
    folders = generate_runs(tmp_path, runs=2, rows=4)
    write(folders[1], [{**row, "id": f"other {row['id']}"} for row in read(folders[1])])
    with pytest.raises(UserError, match="share no question"):
        compare_runs(folders)


def test_many_runs_are_resampled_once_and_paired_with_the_first_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = generate_runs(tmp_path, runs=12, rows=5, cited=0)
    sizes = []
    own = statistics.bootstrap_intervals
    monkeypatch.setattr(
        statistics,
        "bootstrap_intervals",
        lambda columns, **options: sizes.append(len(columns)) or own(columns, **options),
    )
    comparison = compare_runs(folders)
    assert sizes[0] == (12 + 11) * (len(METRICS) + len(COSTS))
    assert len(sizes) == 1 + len(comparison.kinds) + 1  # the outcomes of all runs
    assert [len(lines) for lines in comparison.metrics.values()] == [12] * len(METRICS)
    alone = compare_runs([folders[0], folders[7]])
    for name, lines in alone.metrics.items():
        found, expected = comparison.metrics[name][7].against_first, lines[1].against_first
        assert found is not None
        assert expected is not None
        assert (found.difference, found.p) == (expected.difference, expected.p)
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_compare_with_groups_and_a_report_reads_each_run_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = generate_runs(tmp_path, runs=3, rows=40)
    opened = []
    own = files.complete_lines
    monkeypatch.setattr(files, "complete_lines", lambda path: opened.append(path) or own(path))
    compare(folders, by="type", question=None, html=tmp_path / "report.html", as_json=True)
    assert opened == [folder / "rows.jsonl" for folder in folders]
    assert json.loads(capsys.readouterr().out)["by"]["groups"].keys() == {"bridge", "comparison"}
